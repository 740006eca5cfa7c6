"""Thousands of groups, a group with thousands of offsets, one of hundreds of members."""

import asyncio
from collections.abc import Iterable

from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
)
from tests.much.place import Place, told, topic

PARTITIONS = 8_000
GROUPS = 6_000
MEMBERS = 500
GROUP = 0
"""The type of a coordinator."""


def _commit(group: str, indexes: Iterable[int]) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="")
        for index in indexes
    ]
    return OffsetCommitRequest(
        group_id=group, member_id="", topics=[OffsetCommitRequestTopic(name="wide", partitions=partitions)]
    )


async def _commit_in_each(place: Place, names: Iterable[str]) -> None:
    answers = await place.ask_each([_commit(name, [0]) for name in names], 9)
    assert {one.topics[0].partitions[0].error_code for one in answers} == {0}


def test_the_offsets_of_thousands_of_partitions() -> None:
    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(topic("wide", PARTITIONS))
            await place.find_coordinator(GROUP)
        answer = await place.ask(_commit("g", range(PARTITIONS)), 9)
        assert {one.error_code for one in answer.topics[0].partitions} == {0}
        wanted = [OffsetFetchRequestGroup(group_id="g", topics=None)]
        answer = await place.ask(OffsetFetchRequest(groups=wanted), 8)
        assert len(answer.groups[0].topics[0].partitions) == PARTITIONS
        await place.restart()
        await place.find_coordinator(GROUP)
        answer = await place.ask(OffsetFetchRequest(groups=wanted), 8)
        assert len(answer.groups[0].topics[0].partitions) == PARTITIONS
        gone = [OffsetDeleteRequestPartition(partition_index=index) for index in range(PARTITIONS)]
        asked = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="wide", partitions=gone)])
        answer = await place.ask(asked)
        assert {one.error_code for one in answer.topics[0].partitions} == {0}

    assert told(story) == []


def test_thousands_of_groups() -> None:
    names = [f"g{number}" for number in range(GROUPS)]

    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(topic("wide", 1))
            await place.find_coordinator(GROUP)
            await _commit_in_each(place, names)
        answer = await place.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=names))
        assert {one.error_code for one in answer.coordinators} == {0}
        answer = await place.ask(ListGroupsRequest())
        assert len(answer.groups) == GROUPS
        answer = await place.ask(DescribeGroupsRequest(groups=names))
        assert {one.group_state for one in answer.groups} == {"Empty"}
        wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        answer = await place.ask(OffsetFetchRequest(groups=wanted), 8)
        assert {len(one.topics) for one in answer.groups} == {1}
        answer = await place.ask(DeleteGroupsRequest(groups_names=names))
        assert {one.error_code for one in answer.results} == {0}

    assert told(story) == []


def test_thousands_of_groups_that_nobody_uses_any_more() -> None:
    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(topic("wide", 1))
            await place.find_coordinator(GROUP)
            await _commit_in_each(place, (f"g{number}" for number in range(GROUPS)))
            await asyncio.sleep(50)
        await asyncio.sleep(40)
        answer = await place.ask(ListGroupsRequest())
        assert answer.groups == []

    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "25000"}
    assert told(story, **settings) == []


def test_hundreds_of_members_that_die_at_once() -> None:
    async def story(place: Place) -> None:
        with place.uncounted():
            await place.find_coordinator(GROUP)
            members = [await place.connect() for _ in range(MEMBERS)]
        request = JoinGroupRequest(
            group_id="m",
            session_timeout_ms=6000,
            rebalance_timeout_ms=3000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(100))],
        )
        answers = await asyncio.gather(*(one.ask(request, 3) for one in members))
        assert max(len(one.members) for one in answers) == MEMBERS
        for one in members:
            one.abort()
        await asyncio.sleep(20)
        (group,) = (await place.ask(DescribeGroupsRequest(groups=["m"]))).groups
        assert group.members == []

    settings = {"group.initial.rebalance.delay.ms": "3000"}
    assert told(story, **settings) == []
