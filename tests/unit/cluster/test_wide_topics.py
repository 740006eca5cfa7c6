"""Topics of many partitions: built in slices, there as a whole or not at all, the same after a restart."""

import asyncio
import functools
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.api.services import Services
from broker.coordination.wide_requests import WideCreations, WideGrowths
from broker.partitions.partition import Partition
from coordinator.cluster.topic_rules import MOST_PARTITIONS_PER_REQUEST, Refused
from coordinator.cluster.topics import (
    Planned,
    creation_leaders,
    decide_creation,
    decide_growth,
    growth_leaders,
    partition_records,
    spread_of,
    topic_records,
)
from coordinator.cluster.wide_topics import WIDE, WideBatch, building
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from tests.harness.turns import CallsPerTurn, Turns
from tests.unit.cluster.cluster_rig import ClusterRig, image_of, topic, with_node


def built(rig: ClusterRig, name: str, count: int) -> WideBatch:
    spread = spread_of(rig.machine.image, rig.rules)
    if name in rig.machine.image.topics:
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
        found = decide_growth(rig.machine.image, wanted, rig.rules)
        leaders = growth_leaders(found, wanted, spread)
        topic_id, indexes, head = found.topic_id, range(found.partition_count, count), list[object]()
    else:
        made = topic(name, count, configs={"retention.ms": "5"})
        topic_id, indexes = rig.fresh_id(), range(count)
        head = topic_records(name, topic_id, decide_creation(rig.machine.image, made, rig.rules)[1])
        leaders = creation_leaders(made, spread)
    records = partition_records(topic_id, indexes, leaders, spread.epoch, rig.rules)
    steps = building(head, topic_id, records, indexes, 5 + count)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            wide: WideBatch = done.value
            return wide


def create(rig: ClusterRig, name: str, count: int, wide: WideBatch) -> object:
    made = topic(name, count, configs={"retention.ms": "5"})
    return rig.ask(lambda machine, ticket: machine.create_wide(ticket, made, rig.rules, wide))


def grow(rig: ClusterRig, name: str, count: int, wide: WideBatch) -> object:
    more = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return rig.ask(lambda machine, ticket: machine.grow_wide(ticket, more, rig.rules, wide))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90))
def test_a_synchronous_takeover_equals_the_log(first: int, more: int) -> None:
    rig, plain = ClusterRig(), ClusterRig()
    assert create(rig, "t", first, built(rig, "t", first))
    assert grow(rig, "t", first + more, built(rig, "t", first + more))
    plain.create(topic("t", first, configs={"retention.ms": "5"}))
    plain.grow(CreatePartitionsTopic(name="t", count=first + more, assignments=None))
    reloaded = rig.reloaded().machine
    assert image_of(reloaded) == image_of(rig.machine) == image_of(plain.machine)
    assert len(rig.log.batches) == 2, "one batch for each: a crash leaves all of it or nothing"
    for name in ("last_offset", "last_timestamp_ms", "record_bytes"):
        assert getattr(reloaded.image, name) == getattr(rig.machine.image, name), name


def test_each_change_is_told_with_its_place_in_the_log() -> None:
    rig, plain = ClusterRig(), ClusterRig()
    create(rig, "t", 70, built(rig, "t", 70))
    plain.create(topic("t", 70, configs={"retention.ms": "5"}))
    assert told(rig) == [(0, 0), (1, 0), (71, 70)]
    assert told(plain) == [(0, 0), (1, 0), *((offset, offset - 1) for offset in range(2, 72))]


def told(rig: ClusterRig) -> list[tuple[int, int]]:
    return [(one.offset, one.partition_count) for one in rig.machine.image.changes]


def test_what_was_built_counts_only_if_it_still_holds() -> None:
    rig = ClusterRig()
    twice = [built(rig, "t", 70) for _ in range(2)]
    assert create(rig, "t", 70, twice[0])
    assert create(rig, "t", 70, twice[1]) is None
    more = [built(rig, "t", 140) for _ in range(2)]
    assert grow(rig, "t", 140, more[0])
    assert grow(rig, "t", 140, more[1]) is None
    assert rig.machine.image.topics["t"].partition_count == 140


def test_a_wide_topic_is_created_in_slices_between_other_requests() -> None:
    async def story(node: Services) -> None:
        turns = Turns(node.environment)
        creating = asyncio.create_task(node.topics.create([topic("narrow", 1), topic("wide", 1000), topic("more", 2)]))
        seen: set[int] = set()
        others = 0
        while not creating.done():
            found = node.topics.by_name("wide")
            seen.add(0 if found is None else len(found.partitions))
            if not others and turns.waited and found is None:
                others = (await node.topics.create([topic("other", 1)]))[0].num_partitions
            await asyncio.sleep(0)
        results = await creating
        assert [(one.name, one.error_code, one.num_partitions) for one in results] == [
            ("narrow", 0, 1),
            ("wide", 0, 1000),
            ("more", 0, 2),
        ]
        assert seen == {0, 1000} and others == 1, "absent, or whole"
        growing = CreatePartitionsTopic(name="wide", count=2000, assignments=None)
        before = turns.waited
        (grown,) = await node.topics.grow([growing])
        assert grown.error_code == 0 and turns.waited > before + 2
        (again,) = await node.topics.create([topic("wide", 100)])
        assert again.error_code == 36
        (refused,) = await node.topics.create([topic("huge", MOST_PARTITIONS_PER_REQUEST + 1)])
        assert refused.error_code == 44 and node.topics.by_name("huge") is None

    with_node(story)


def test_a_wide_topic_is_closed_in_slices() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("wide", 500)])
        found = node.topics.by_name("wide")
        assert found is not None
        closed = CallsPerTurn(Partition.discard)
        for partition in found.partitions.opened():
            partition.discard = functools.partial(closed, partition)  # type: ignore[method-assign]
        Turns(node.environment)
        deleting = asyncio.create_task(node.topics.delete([DeleteTopicState(name="wide", topic_id=bytes(16))]))
        while node.topics.by_name("wide") is not None:
            await asyncio.sleep(0)
        assert all(partition.discarded for partition in found.partitions.opened()), "nobody writes any more, at once"
        await deleting
        assert closed.total == 500 and closed.most < 50

    with_node(story)


def test_only_one_of_two_creators_of_a_topic_succeeds() -> None:
    async def story(node: Services) -> None:
        both = await asyncio.gather(*(node.topics.create([topic("t", 300)]) for _ in range(2)))
        assert sorted(results[0].error_code for results in both) == [0, 36]
        grown = [CreatePartitionsTopic(name="t", count=count, assignments=None) for count in (600, 900)]
        each = await asyncio.gather(*(node.topics.grow([one]) for one in grown))
        assert [results[0].error_code for results in each] in ([0, 0], [37, 0])
        topic_ = node.topics.by_name("t")
        assert topic_ is not None and len(topic_.partitions) == 900

    with_node(story)


def test_wide_topics_that_cannot_be_made_are_refused_as_others_are() -> None:
    async def story(node: Services) -> None:
        count = WIDE + 1
        made = [topic("t", count), topic("..", count)]
        assert [one.error_code for one in await node.topics.create([topic("t", 2)])] == [ErrorCode.NONE]
        assert {one.error_code for one in await node.topics.create(made[:1])} == {ErrorCode.TOPIC_ALREADY_EXISTS}
        assert {one.error_code for one in await node.topics.create(made[1:])} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        grown = CreatePartitionsTopic(name="no", count=count, assignments=None)
        (refused,) = await node.topics.grow([grown])
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_node(story)


@pytest.mark.parametrize(
    ("assigned", "said", "default", "is_wide"),
    [
        (0, WIDE, 1, True),
        (0, WIDE - 1, 1, False),
        (0, -1, WIDE, True),
        (0, -1, WIDE - 1, False),
        (WIDE, -1, 1, True),
        (WIDE - 1, -1, 1, False),
    ],
)
def test_topics_are_wide_by_what_is_assigned_or_said_or_set(
    assigned: int, said: int, default: int, is_wide: bool
) -> None:
    rules = ClusterRig(num_partitions=default).rules
    made = topic("t", said, assignments=[(index, [1]) for index in range(assigned)])
    wide = WideCreations(cast(Any, None), cast(Any, None), rules)
    assert wide.holds(Planned(made)) is is_wide
    assert not wide.holds(Planned(made, Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "")))
    grown = CreatePartitionsTopic(name="t", count=max(assigned, said, default), assignments=None)
    growths = WideGrowths(cast(Any, None), cast(Any, None), rules)
    assert growths.holds(Planned(grown)) is is_wide
    assert not growths.holds(Planned(grown, Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "")))
