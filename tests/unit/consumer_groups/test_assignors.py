"""Assignors: everybody gets a fair share, and little moves."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.assignors.range import assign_ranges
from coordinator.groups.assignors.subject import Assignment, Subject, Subscriber
from coordinator.groups.assignors.uneven import _Loads
from coordinator.groups.assignors.uniform import assign_uniformly

T, U, V = b"t" * 16, b"u" * 16, b"v" * 16


def subject(counts: Mapping[bytes, int], **members: Subscriber) -> Subject:
    same = len({member.topics for member in members.values()}) <= 1
    return Subject(members, counts, same)


def shares(assigned: Mapping[str, Assignment]) -> dict[str, dict[bytes, list[int]]]:
    return {member: {topic: sorted(of) for topic, of in share.items()} for member, share in assigned.items()}


def sizes(assigned: Mapping[str, Assignment]) -> dict[str, int]:
    return {member: sum(map(len, share.values())) for member, share in assigned.items()}


def test_ranges_of_each_topic_are_split_alike() -> None:
    both = Subscriber((T, U))
    assigned = assign_ranges(subject({T: 5, U: 5}, b=both, a=both))
    assert shares(assigned) == {"a": {T: [0, 1, 2], U: [0, 1, 2]}, "b": {T: [3, 4], U: [3, 4]}}


def test_ranges_go_by_instance_ids_first() -> None:
    members = {
        "a": Subscriber((T,)),
        "b": Subscriber((T,), instance_id="z"),
        "c": Subscriber((T,), instance_id="y"),
    }
    assert shares(assign_ranges(subject({T: 3}, **members))) == {"a": {T: [2]}, "b": {T: [1]}, "c": {T: [0]}}


def test_more_members_than_partitions() -> None:
    one = Subscriber((T,))
    assert shares(assign_ranges(subject({T: 1}, a=one, b=one))) == {"a": {T: [0]}, "b": {}}
    assert sizes(assign_uniformly(subject({T: 1}, a=one, b=one))) == {"a": 1, "b": 0}


def test_a_range_is_for_those_who_want_the_topic() -> None:
    assigned = assign_ranges(subject({T: 4, U: 2}, a=Subscriber((T, U)), b=Subscriber((T,))))
    assert shares(assigned) == {"a": {T: [0, 1], U: [0, 1]}, "b": {T: [2, 3]}}


def test_who_comes_gets_from_those_who_have_most_and_nothing_else_moves() -> None:
    full = Subscriber((T,), {T: frozenset(range(4))})
    less = Subscriber((T,), {T: frozenset((4, 5))})
    assigned = assign_uniformly(subject({T: 6}, a=full, b=less, c=Subscriber((T,))))
    assert shares(assigned) == {"a": {T: [0, 1]}, "b": {T: [4, 5]}, "c": {T: [2, 3]}}


def test_who_has_one_more_keeps_it() -> None:
    a, b = Subscriber((T,), {T: frozenset((0,))}), Subscriber((T,), {T: frozenset((1, 2))})
    assert shares(assign_uniformly(subject({T: 3}, a=a, b=b))) == {"a": {T: [0]}, "b": {T: [1, 2]}}


def test_partitions_that_are_gone_are_not_kept() -> None:
    a = Subscriber((T,), {T: frozenset((0, 7)), U: frozenset((0,))})
    assert shares(assign_uniformly(subject({T: 2}, a=a))) == {"a": {T: [0, 1]}}


def test_nobody_and_nothing() -> None:
    assert assign_uniformly(subject({})) == {}
    assert assign_uniformly(subject({}, a=Subscriber(()))) == {"a": {}}
    assert assign_ranges(subject({}, a=Subscriber(()))) == {"a": {}}


def test_others_make_up_for_who_can_take_one_topic_only() -> None:
    members = {"a": Subscriber((T,)), "b": Subscriber((T, U)), "c": Subscriber((U,))}
    assigned = assign_uniformly(subject({T: 6, U: 3}, **members))
    assert sizes(assigned) == {"a": 3, "b": 3, "c": 3}
    assert shares(assigned)["c"] == {U: [0, 1, 2]}


def test_uneven_loads_are_evened_out_by_what_must_move_alone() -> None:
    members = {
        "a": Subscriber((T, U), {T: frozenset(range(6))}),
        "b": Subscriber((T,)),
        "c": Subscriber((U,), {U: frozenset((0, 1))}),
    }
    assigned = assign_uniformly(subject({T: 6, U: 2}, **members))
    assert sizes(assigned) == {"a": 3, "b": 3, "c": 2}
    assert shares(assigned)["c"] == {U: [0, 1]}


def some(*partitions: int) -> frozenset[int]:
    return frozenset(partitions)


@pytest.mark.parametrize(
    ("counts", "members", "expected"),
    [
        (
            {T: 5, U: 6, V: 4},
            {
                "a": Subscriber((T, U), {U: some(1, 5, 6)}),
                "b": Subscriber((T, U, V), {T: some(2, 4), U: some(3, 4)}),
                "c": Subscriber((T, U)),
            },
            {
                "a": {U: [1, 5], T: [0, 2, 3]},
                "b": {V: [0, 1, 2, 3], U: [3]},
                "c": {U: [0, 2, 4], T: [1, 4]},
            },
        ),
        (
            {T: 2, U: 5, V: 5},
            {
                "a": Subscriber((U, V), {T: some(0), V: some(0, 2, 4)}),
                "b": Subscriber((T, U, V), {T: some(1)}),
                "c": Subscriber((T, V), {T: some(1, 2)}),
                "d": Subscriber((T, V), {U: some(0, 1, 4)}),
                "e": Subscriber((T,), {U: some(0, 1, 2), V: some(4, 5)}),
            },
            {
                "a": {U: [2, 4], V: [0]},
                "b": {U: [0, 1, 3]},
                "c": {V: [1, 2]},
                "d": {V: [3, 4]},
                "e": {T: [0, 1]},
            },
        ),
        (
            {T: 6, U: 2, V: 5},
            {
                "a": Subscriber((T, V), {T: some(1, 2), U: some(0, 2)}),
                "b": Subscriber((T, U, V), {T: some(0, 4)}),
                "c": Subscriber((T,)),
            },
            {"a": {V: [0, 2, 4], T: [1]}, "b": {V: [1, 3], U: [0, 1], T: [0]}, "c": {T: [2, 3, 4, 5]}},
        ),
        (
            {T: 2, U: 5},
            {"a": Subscriber((T, U), {T: some(1, 2)}), "b": Subscriber((T, U))},
            {"a": {T: [0, 1], U: [0, 1]}, "b": {U: [2, 3, 4]}},
        ),
        (
            {T: 2, U: 2},
            {"a": Subscriber((T,), {T: some(1)}), "b": Subscriber((T, U), {T: some(0)})},
            {"a": {T: [0, 1]}, "b": {U: [0, 1]}},
        ),
    ],
)
def test_who_gets_what_where_members_had_something_before(
    counts: dict[bytes, int], members: dict[str, Subscriber], expected: dict[str, dict[bytes, list[int]]]
) -> None:
    """Named partition by partition: shares as equal as they can be are not all there is to it."""
    assert shares(assign_uniformly(subject(counts, **members))) == expected


def test_what_is_even_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[bool] = []
    right = _Loads.even_out

    def counted(self: _Loads) -> bool:
        moved.append(right(self))
        return moved[-1]

    monkeypatch.setattr(_Loads, "even_out", counted)
    members = {"a": Subscriber((T, U)), "b": Subscriber((T,))}
    first = assign_uniformly(subject({T: 4, U: 4}, **members))
    assert moved == [False]
    again = {name: Subscriber(member.topics, first[name]) for name, member in members.items()}
    assert (assign_uniformly(subject({T: 4, U: 4}, **again)), moved) == (first, [False, False])
    moved.clear()
    had = {"a": Subscriber((T, U), {T: some(0, 1, 2, 3)}), "b": Subscriber((T,))}
    assert sizes(assign_uniformly(subject({T: 4, U: 1}, **had))) == {"a": 3, "b": 2}
    assert moved == [True, False]


MEMBERS = st.lists(st.frozensets(st.sampled_from((T, U, V)), max_size=3), max_size=8)
COUNTS = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in (T, U, V)})


def _subject(wanted: list[frozenset[bytes]], counts: dict[bytes, int], before: Mapping[str, Assignment]) -> Subject:
    names = [f"m{number}" for number in range(len(wanted))]
    named = zip(names, wanted, strict=True)
    members = {name: Subscriber(tuple(sorted(topics)), before.get(name, {})) for name, topics in named}
    return subject(counts, **members)


@pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])
@given(wanted=MEMBERS, counts=COUNTS)
def test_every_wanted_partition_has_one_owner_who_wants_it(
    assign: object, wanted: list[frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    assert callable(assign)
    asked = _subject(wanted, counts, {})
    assigned = assign(asked)
    assert list(assigned) == list(asked.members)
    owned = [(topic, one) for share in assigned.values() for topic, of in share.items() for one in of]
    topics = frozenset().union(*wanted)
    assert sorted(owned) == sorted((topic, one) for topic in topics for one in range(counts[topic]))
    for member, share in assigned.items():
        assert share.keys() <= set(asked.members[member].topics)


@given(wanted=MEMBERS, counts=COUNTS)
def test_nothing_moves_where_nothing_has_changed(wanted: list[frozenset[bytes]], counts: dict[bytes, int]) -> None:
    first = assign_uniformly(_subject(wanted, counts, {}))
    assert assign_uniformly(_subject(wanted, counts, first)) == first


@given(count=st.integers(1, 8), more=st.integers(0, 4), counts=COUNTS)
def test_shares_differ_by_one_and_only_what_must_moves(count: int, more: int, counts: dict[bytes, int]) -> None:
    """Where all want the same: nobody keeps less than a share of what it had."""
    before = assign_uniformly(_subject([frozenset(counts)] * count, counts, {}))
    after = assign_uniformly(_subject([frozenset(counts)] * (count + more), counts, before))
    held = sizes(after).values()
    assert max(held) - min(held) <= 1
    for member, share in before.items():
        kept = sum(len(share[topic] & after[member].get(topic, frozenset())) for topic in share)
        assert kept == min(sizes(before)[member], sizes(after)[member])


@given(wanted=st.lists(st.frozensets(st.sampled_from((T, U, V)), min_size=1), min_size=1, max_size=8), counts=COUNTS)
def test_no_move_between_two_members_would_make_loads_more_equal(
    wanted: list[frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    asked = _subject(wanted, counts, {})
    assigned = assign_uniformly(asked)
    held = sizes(assigned)
    for giver, share in assigned.items():
        for topic in share:
            for taker, member in asked.members.items():
                if topic in member.topics:
                    assert held[giver] - held[taker] <= 1
