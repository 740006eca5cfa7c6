"""The assignor `simple`: every partition has a member, every member a partition, nobody much more than others."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.assignors.simple import assign_shares
from coordinator.groups.assignors.subject import Assignment, Subscriber

TOPICS = [bytes([number]) * 16 for number in range(3)]


def member(*topics: bytes, current: Assignment | None = None) -> Subscriber:
    return Subscriber(tuple(topics), current or {})


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Subscriber], dict[bytes, set[int]]]:
    partitions = {topic: set(range(draw(st.integers(0, 7)))) for topic in TOPICS[: draw(st.integers(1, 3))]}
    members = {}
    alike = draw(st.booleans())
    for number in range(draw(st.integers(0, 12))):
        topics = TOPICS if alike else draw(st.lists(st.sampled_from(TOPICS), unique=True))
        current = {
            topic: frozenset(draw(st.lists(st.integers(0, 9), unique=True, max_size=5)))
            for topic in draw(st.lists(st.sampled_from(TOPICS), unique=True))
        }
        members[f"m{number}"] = member(*topics, current=current)
    return members, partitions


def slots(targets: Mapping[str, Assignment]) -> list[tuple[str, bytes, int]]:
    return [(name, topic, one) for name, target in targets.items() for topic, of in target.items() for one in of]


@given(groups())
def test_all_partitions_and_all_members_have_their_part(
    group: tuple[dict[str, Subscriber], dict[bytes, set[int]]],
) -> None:
    members, partitions = group
    targets = assign_shares(members, partitions)
    assert targets.keys() == members.keys()
    held = slots(targets)
    for name, topic, one in held:
        assert topic in members[name].topics and one in partitions.get(topic, ()), "only what is wanted and is there"
    wanted = {topic for subscriber in members.values() for topic in subscriber.topics}
    assert {(topic, one) for _, topic, one in held} == {
        (topic, one) for topic, of in partitions.items() if topic in wanted for one in of
    }
    for name, subscriber in members.items():
        assert bool(targets[name]) == any(partitions.get(topic) for topic in subscriber.topics)


@given(st.integers(1, 12), st.integers(1, 12))
def test_members_who_want_the_same_have_about_as_much(member_count: int, partition_count: int) -> None:
    members = {f"m{number}": member(TOPICS[0]) for number in range(member_count)}
    targets = assign_shares(members, {TOPICS[0]: range(partition_count)})
    sizes = [len(target[TOPICS[0]]) for target in targets.values()]
    assert max(sizes) - min(sizes) <= 1
    of_each = Counter(one for _, _, one in slots(targets))
    assert set(of_each.values()) == {-(-member_count // partition_count)}, "of each partition as many"
    again = {name: member(TOPICS[0], current=targets[name]) for name in members}
    assert assign_shares(again, {TOPICS[0]: range(partition_count)}) == targets, "what one has one keeps"


def test_as_many_as_apache_kafka_gives_each() -> None:
    """Three members of two partitions have two, one and one of them; two members one each."""
    members = {name: member(TOPICS[0]) for name in ("m1", "m2", "m3")}
    targets = assign_shares(members, {TOPICS[0]: range(2)})
    assert [len(target[TOPICS[0]]) for target in targets.values()] == [2, 1, 1]
    del members["m3"]
    assert [len(target[TOPICS[0]]) for target in assign_shares(members, {TOPICS[0]: range(2)}).values()] == [1, 1]


@given(st.data(), st.integers(1, 6), st.integers(1, 6))
def test_what_many_had_before_keeps_no_partition_from_its_members(
    data: st.DataObject, member_count: int, partition_count: int
) -> None:
    """Whatever they had: no partition has more members than are needed for each to have something."""
    parts = st.frozensets(st.integers(0, partition_count - 1), max_size=2)
    members = {f"m{number}": member(TOPICS[0], current={TOPICS[0]: data.draw(parts)}) for number in range(member_count)}
    held = slots(assign_shares(members, {TOPICS[0]: range(partition_count)}))
    assert {one for _, _, one in held} == set(range(partition_count))
    kept = [one for name, _, one in held if one in members[name].current[TOPICS[0]]]
    needed = -(-member_count // partition_count)
    assert all(kept.count(one) <= needed for one in range(partition_count))


@given(st.permutations(range(12)), st.integers(1, 6))
def test_what_is_shared_out_fairly_stays_where_it_is(order: list[int], member_count: int) -> None:
    """Whoever has which: as it came about, not as it would be handed out anew."""
    fair = [order[number::member_count] for number in range(member_count)]
    members = {f"m{number}": member(TOPICS[0], current={TOPICS[0]: frozenset(of)}) for number, of in enumerate(fair)}
    sizes = {len(of) for of in fair}
    targets = assign_shares(members, {TOPICS[0]: range(12)})
    if len(sizes) == 1:
        assert targets == {name: one.current for name, one in members.items()}
    joined = assign_shares({**members, "new": member(TOPICS[0])}, {TOPICS[0]: range(12)})
    for name, one in members.items():
        had, has = one.current[TOPICS[0]], joined[name][TOPICS[0]]
        assert has <= had or had <= has, "who gives up takes nothing else"
