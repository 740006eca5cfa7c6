"""Asking leaders in other nodes where their partitions end."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.across_nodes.peer_ends import AT_ONCE, PeerEnds, Wanted
from coordinator.cluster.leaders import NOBODY
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.across_nodes.rig import ME, OTHER, THIRD, FakePeers

LONG_S, AT_ONCE_S = 60.0, 0.0


def topic(name: str) -> Any:
    return SimpleNamespace(name=name, topic_id=name.encode() * 16)


A, B = topic("a"), topic("b")


def answered(node: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """A partition ends at its number and a hundred for each node; 99 is not there."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=one.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.partition_index == 99 else 0,
                        offset=-1 if wanted.partition_index == 99 else 100 * node + wanted.partition_index,
                    )
                    for wanted in one.partitions
                ],
            )
            for one in request.topics
        ]
    )


class Rig:
    """`leaders` by topic id and partition; else it is OTHER."""

    def __init__(self, answer: Callable[[int, Any], Any] = answered) -> None:
        self.leaders: dict[tuple[bytes, int], int] = {}
        self.peers = FakePeers(answer)
        nodes: Any = SimpleNamespace(node_id=ME, leader=self._leader)
        self.ends = PeerEnds(nodes, self.peers, asyncio.ensure_future)

    def _leader(self, topic_id: bytes, index: int) -> tuple[int, int]:
        return self.leaders.get((topic_id, index), OTHER), 7


def told(story: Callable[[Rig], Coroutine[Any, Any, None]], answer: Callable[[int, Any], Any] = answered) -> None:
    async def run() -> None:
        await story(Rig(answer))

    asyncio.run(run())


def test_one_is_asked_of_its_leader() -> None:
    async def story(rig: Rig) -> None:
        assert await rig.ends.of(A, 3) == 100 * OTHER + 3
        assert await rig.ends.of(A, 99) is None, "there is no such partition there"
        assert [node for node, _, _ in rig.peers.asked] == [OTHER, OTHER]
        for nobody in (ME, NOBODY):
            rig.leaders[A.topic_id, 3] = nobody
            assert await rig.ends.of(A, 3) is None
        assert len(rig.peers.asked) == 2

    told(story)


def test_many_are_asked_of_each_leader_together() -> None:
    async def story(rig: Rig) -> None:
        rig.leaders = {(A.topic_id, 1): THIRD, (B.topic_id, 0): THIRD, (B.topic_id, 1): ME, (B.topic_id, 2): NOBODY}
        wanted = [(A, 0), (A, 1), (A, 99), (B, 0), (B, 1), (B, 2)]
        ends = {("a", 0): 100 * OTHER, ("a", 1): 100 * THIRD + 1, ("b", 0): 100 * THIRD}
        assert await rig.ends.of_many(wanted, LONG_S) == ends
        assert sorted(node for node, _, _ in rig.peers.asked) == [OTHER, THIRD]
        assert await rig.ends.of_many([], LONG_S) == {}

    told(story)


def test_a_request_names_a_thousand_at_most() -> None:
    async def story(rig: Rig) -> None:
        wanted: list[Wanted] = [(A, index) for index in range(100, 100 + 2 * AT_ONCE + 1)]
        assert len(await rig.ends.of_many(wanted, LONG_S)) == len(wanted)
        asked = [len(request.topics[0].partitions) for _, request, _ in rig.peers.asked]
        assert asked == [AT_ONCE, AT_ONCE, 1]

    told(story)


def test_nobody_waits_for_one_that_stands_still_and_it_is_not_asked_again_meanwhile() -> None:
    async def story(rig: Rig) -> None:
        rig.peers.gate.clear()
        for _ in range(3):
            assert await rig.ends.of_many([(A, 0)], AT_ONCE_S) == {}
        assert len(rig.peers.asked) == 1
        rig.leaders[B.topic_id, 0] = THIRD
        assert await rig.ends.of_many([(A, 0), (B, 0)], AT_ONCE_S) == {}
        assert [node for node, _, _ in rig.peers.asked] == [OTHER, THIRD], "the other one is"
        rig.peers.gate.set()
        while len(await rig.ends.of_many([(A, 0), (B, 0)], LONG_S)) < 2:
            await asyncio.sleep(0)

    told(story)


def test_one_that_cannot_be_asked_may_be_asked_again() -> None:
    async def story(rig: Rig) -> None:
        for _ in range(2):
            assert await rig.ends.of(A, 0) is None
            assert await rig.ends.of_many([(A, 0)], LONG_S) == {}
        assert len(rig.peers.asked) == 4

    told(story, lambda node, request: None)


def test_one_that_does_not_let_this_one_ask_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """It may be that this node's principal is to become a super user."""

    def answer(node: int, request: Any) -> ListOffsetsResponse:
        end = ListOffsetsPartitionResponse(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=[end])])

    async def story(rig: Rig) -> None:
        assert await rig.ends.of(A, 0) is None
        assert await rig.ends.of_many([(A, 0)], LONG_S) == {}

    told(story, answer)
    assert [vars(one)["fields"] for one in caplog.records] == [{"node": OTHER, "of": "ListOffsets"}]


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [ListOffsetsTopicResponse(name="a", partitions=[])],
        [ListOffsetsTopicResponse(name="a", partitions=[ListOffsetsPartitionResponse(partition_index=7, offset=9)])],
    ],
    ids=["no topic", "no partition", "another one"],
)
def test_an_answer_without_the_partition_tells_nothing(topics: list[ListOffsetsTopicResponse]) -> None:
    async def story(rig: Rig) -> None:
        assert await rig.ends.of(A, 0) is None
        assert ("a", 0) not in await rig.ends.of_many([(A, 0)], LONG_S)

    told(story, lambda node, request: ListOffsetsResponse(topics=topics))
