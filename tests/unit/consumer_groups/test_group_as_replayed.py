"""What a consumer group knows after each change that its log says, and how many bytes it counts for it."""

from dataclasses import replace

import pytest

from coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState, ResolvedRegex
from coordinator.groups.consumer.member import ClassicFacet, ConsumerMember, MemberState
from coordinator.groups.held import LOGGED_GROUP_BYTES, MEMBER_BYTES, Held

T, U = b"t" * 16, b"u" * 16
A, B = ConsumerMember("A"), ConsumerMember("B")
FACET = ClassicFacet(10_000, (("range", b"12345"), ("turns", b"")))


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"instance_id": "xy"}, 2),
        ({"rack_id": "abc"}, 3),
        ({"client_id": "four"}, 4),
        ({"client_host": "/five"}, 5),
        ({"regex": "ab.*"}, 4),
        ({"regex": None}, 0),
        ({"topics": frozenset(("t1", "t22"))}, 80 + 2 + 80 + 3),
        ({"assigned": {T: {0: 1, 1: 1}, U: {0: 1}}}, 250 + 100 + 250 + 50),
        ({"revoking": {T: {0: 1, 1: 1}}}, 250 + 100),
        ({"classic": FACET}, 105 + 100),
        ({"member_id": "ABC"}, 2),
    ],
)
def test_a_member_counts_what_it_says_and_has(change: dict[str, object], more: int) -> None:
    assert A.held_bytes == MEMBER_BYTES + 1
    assert replace(A, **change).held_bytes == MEMBER_BYTES + 1 + more  # type: ignore[arg-type]


def test_a_group_counts_all_that_it_holds_and_lets_go_of_it() -> None:
    held = Held()
    group = ConsumerGroup("orders", held)
    empty = LOGGED_GROUP_BYTES + 12
    assert held.bytes == empty
    with_topic = replace(A, topics=frozenset(("t",)))
    group.put(A)
    group.put(with_topic)
    assert held.bytes == empty + with_topic.held_bytes
    group.aim("A", {T: frozenset((0, 1)), U: frozenset()})
    assert held.bytes == empty + with_topic.held_bytes + 250 + 100 + 250
    group.aim("A", {T: frozenset((0,))})
    assert held.bytes == empty + with_topic.held_bytes + 250 + 50
    group.resolve("a.*", ResolvedRegex(frozenset(("a1", "a")), 1, 2))
    assert held.bytes == empty + with_topic.held_bytes + 300 + 200 + 80 + 2 + 80 + 1 + 3
    group.resolve("a.*", ResolvedRegex(frozenset(), 1, 2))
    assert held.bytes == empty + with_topic.held_bytes + 300 + 200 + 3
    group.resolve("a.*", None)
    group.resolve("a.*", None)
    group.aim("A", None)
    group.aim("B", None)
    assert held.bytes == empty + with_topic.held_bytes
    group.remove("B")
    group.remove("A")
    assert held.bytes == empty
    group.put(A)
    group.let_go()
    assert held.bytes == 0


def test_who_names_a_topic_and_who_asks_for_an_expression_is_counted() -> None:
    group = ConsumerGroup("g")
    group.put(replace(A, topics=frozenset(("t", "u")), regex="a.*"))
    group.put(replace(B, topics=frozenset(("t",)), regex="a.*"))
    assert group.regex_members == {"a.*": 2}
    group.put(replace(A, topics=frozenset(("t",)), regex=""))
    assert group.regex_members == {"a.*": 1}
    assert [group.is_subscribed_to(topic) for topic in ("t", "u")] == [True, False]
    group.remove("A")
    assert group.is_subscribed_to("t")
    group.put(replace(B, regex=None))
    assert (group.regex_members, group.is_subscribed_to("t")) == ({}, False)
    group.resolve("x", ResolvedRegex(frozenset(("v",)), 1, 2))
    assert [group.is_subscribed_to(topic) for topic in ("t", "v")] == [False, True]


def test_the_topics_of_a_member_are_those_it_names_and_those_its_expression_stands_for() -> None:
    group = ConsumerGroup("g")
    member = replace(A, topics=frozenset(("t",)), regex="x")
    assert group.topics_of(member) == {"t"}
    group.resolve("x", ResolvedRegex(frozenset(("v",)), 1, 2))
    assert group.topics_of(member) == {"t", "v"}
    assert group.topics_of(replace(member, regex="")) == {"t"}


def test_members_of_the_classic_protocol_are_counted() -> None:
    group = ConsumerGroup("g")
    group.put(replace(A, classic=FACET))
    group.put(replace(B, classic=FACET))
    assert group.classic_count == 2
    group.put(A)
    assert (group.classic_count, [one.member_id for one in group.classic_members()]) == (1, ["B"])
    group.remove("B")
    assert (group.classic_count, list(group.classic_members())) == (0, [])


def test_a_partition_has_the_owner_that_was_named_last() -> None:
    group = ConsumerGroup("g")
    group.put(replace(A, assigned={T: {0: 1}}, revoking={U: {1: 1}}))
    assert [group.is_owned(T, 0), group.is_owned(U, 1), group.is_owned(T, 1), group.is_owned(U, 0)] == [
        True,
        True,
        False,
        False,
    ]
    group.put(replace(B, assigned={T: {0: 2}}))
    group.put(A)
    assert (group.is_owned(T, 0), group.is_owned(U, 1)) == (True, False), "B has it now, as compaction may leave it"
    group.put(replace(B, revoking={T: {0: 2}}))
    assert group.is_owned(T, 0)
    group.remove("B")
    assert not group.is_owned(T, 0)
    assert group._owners == {}


def test_an_instance_id_stands_for_the_member_that_has_it_now() -> None:
    group = ConsumerGroup("g")
    group.put(replace(A, instance_id="one"))
    group.aim("A", {T: frozenset((0,))})
    assert group.static_member(None) is None
    assert group.static_member("two") is None
    assert group.static_member("one") == replace(A, instance_id="one")
    assert group.target_of("Z", "one") == {T: frozenset((0,))}
    assert (group.target_of("A", "two"), group.target_of("Z", None)) == ({}, {})
    group.put(replace(B, instance_id="one"))
    group.remove("A")
    assert group.static_ids == {"one": "B"}
    group.remove("B")
    assert (group.static_ids, group.static_member("one")) == ({}, None)


def test_the_state_of_a_group() -> None:
    group = ConsumerGroup("g")
    assert (group.epoch, group.assignment_epoch, group.state) == (1, 1, ConsumerGroupState.EMPTY)
    assert not group.has_partition_metadata
    group.put(replace(A, epoch=1))
    assert group.state is ConsumerGroupState.STABLE
    group.put(replace(B, epoch=0))
    assert group.state is ConsumerGroupState.RECONCILING
    group.put(replace(B, epoch=1))
    assert group.state is ConsumerGroupState.STABLE
    group.put(replace(B, epoch=1, state=MemberState.UNRELEASED_PARTITIONS))
    assert group.state is ConsumerGroupState.RECONCILING
    group.epoch = 2
    assert group.state is ConsumerGroupState.ASSIGNING
    group.assignment_epoch = 2
    assert group.state is ConsumerGroupState.RECONCILING
    group.remove("A")
    group.remove("B")
    assert group.state is ConsumerGroupState.EMPTY


def test_a_member_that_goes_away_for_a_while_keeps_what_it_has() -> None:
    had = replace(A, epoch=5, assigned={T: {0: 3, 1: 5}}, revoking={U: {0: 2}})
    assert had.away() == replace(had, epoch=-2, assigned={T: {0: 0, 1: 0}}, revoking={})
    assert (had.epoch_of(T, 0), had.epoch_of(T, 1), had.epoch_of(U, 0)) == (3, 5, 2)
    assert (had.epoch_of(T, 2), had.epoch_of(U, 1)) == (None, None)
