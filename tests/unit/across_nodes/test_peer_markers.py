"""Markers for partitions of other nodes: together, one request at a time, and whatever time cures is tried again."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.across_nodes.peer_markers import AT_ONCE, SharedMarkerWriter
from coordinator.cluster.leaders import NOBODY
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.across_nodes.rig import ME, OTHER, THIRD, FakePeers, turns

ID = b"t" * 16


def marker(producer_id: int = 7, *, epoch: int = 3, commit: bool = True) -> Marker:
    return Marker(producer_id, epoch, commit, coordinator_epoch=9, transaction_version=2)


def answered(request: WriteTxnMarkersRequest, error: ErrorCode = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=one.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in request.markers
        ]
    )


class World:
    def __init__(self, leaders: dict[int, int], answer: Any = lambda node, request: answered(request)) -> None:
        self.peers = FakePeers(answer)
        self.local: list[tuple[str, int]] = []
        self.told: list[tuple[int, ErrorCode]] = []
        topic = SimpleNamespace(topic_id=ID)
        topics: Any = SimpleNamespace(
            by_name=lambda name: topic if name == "t" else None, by_id=lambda one: topic if one == ID else None
        )
        nodes: Any = SimpleNamespace(node_id=ME, leader=lambda topic_id, index: (leaders[index], 5))
        local: Any = SimpleNamespace(write=lambda name, index, topic_id, one, done: self.local.append((name, index)))
        self.writer = SharedMarkerWriter(local, topics, nodes, self.peers, asyncio.ensure_future)  # type: ignore[arg-type]

    def write(self, index: int, one: Marker | None = None, topic_id: bytes | None = ID) -> None:
        def done(error: ErrorCode) -> None:
            self.told.append((index, error))

        self.writer.write("t", index, topic_id, one or marker(), done)


def test_each_marker_goes_to_the_leader_of_its_partition() -> None:
    async def story() -> None:
        world = World({0: ME, 1: OTHER, 2: THIRD, 3: NOBODY})
        for index in range(4):
            world.write(index)
        await turns()
        assert world.local == [("t", 0)]
        assert [(node, version) for node, _, version in world.peers.asked] == [(OTHER, 2), (THIRD, 2)]
        assert world.told == [(3, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.NONE), (2, ErrorCode.NONE)]
        (sent,) = world.peers.asked[0][1].markers
        assert (sent.producer_id, sent.producer_epoch, sent.transaction_result) == (7, 3, True)
        assert (sent.coordinator_epoch, sent.transaction_version) == (9, 2)

    asyncio.run(story())


def test_of_a_topic_that_is_gone_nobody_is_told() -> None:
    async def story() -> None:
        world = World({0: OTHER})
        world.write(0, topic_id=b"gone".ljust(16))
        assert world.told == [(0, ErrorCode.UNKNOWN_TOPIC_ID)] and world.peers.asked == []

    asyncio.run(story())


def test_a_topic_is_named_with_the_id_that_the_transaction_has_of_it() -> None:
    """None where it has none: then it is whatever has the name there, as on one node."""

    async def story() -> None:
        world = World({0: OTHER, 1: THIRD})
        world.write(0)
        world.write(1, topic_id=None)
        await turns()
        named = [request.markers[0].topics[0].topic_id for _, request, _ in world.peers.asked]
        assert named == [ID, bytes(16)]
        assert [error for _, error in world.told] == [ErrorCode.NONE, ErrorCode.NONE]

    asyncio.run(story())


def test_two_topics_of_one_name_are_never_in_one_request() -> None:
    """Its answer names them by that: a transaction may have been in both."""

    async def story() -> None:
        world = World({0: OTHER, 1: OTHER, 2: OTHER})
        world.peers.gate.clear()
        world.write(0)
        await turns()
        world.write(1)
        world.write(2, topic_id=None)
        world.peers.gate.set()
        await turns()
        named = [[topic.topic_id for topic in request.markers[0].topics] for _, request, _ in world.peers.asked]
        assert named == [[ID], [ID], [bytes(16)]]
        assert [error for _, error in world.told] == [ErrorCode.NONE] * 3

    asyncio.run(story())


def test_what_comes_meanwhile_goes_with_the_next_request() -> None:
    async def story() -> None:
        world = World(dict.fromkeys(range(AT_ONCE + 5), OTHER))
        world.peers.gate.clear()
        world.write(0)
        await turns()
        for index in range(1, AT_ONCE + 5):
            world.write(index)
        await turns()
        assert len(world.peers.asked) == 1, "one request at a time"
        world.peers.gate.set()
        await turns()
        sizes = [
            sum(len(topic.partition_indexes) for one in request.markers for topic in one.topics)
            for _, request, _ in world.peers.asked
        ]
        assert sizes == [1, AT_ONCE, 4]
        assert world.told == [(index, ErrorCode.NONE) for index in range(AT_ONCE + 5)]

    asyncio.run(story())


def test_two_markers_of_one_producer_are_never_in_one_request() -> None:
    """Its answer names them by the producer."""

    async def story() -> None:
        world = World({0: OTHER, 1: OTHER, 2: OTHER})
        world.peers.gate.clear()
        world.write(0)
        await turns()
        world.write(1, marker(epoch=3))
        world.write(2, marker(epoch=4, commit=False))
        world.peers.gate.set()
        await turns()
        assert [[one.producer_epoch for one in request.markers] for _, request, _ in world.peers.asked] == [
            [3],
            [3],
            [4],
        ]
        assert [error for _, error in world.told] == [ErrorCode.NONE] * 3

    asyncio.run(story())


def test_whatever_time_cures_is_told_as_that() -> None:
    async def story() -> None:
        gone = World({0: OTHER}, lambda node, request: None)
        gone.write(0)
        silent = World({0: OTHER}, lambda node, request: WriteTxnMarkersResponse(markers=[]))
        silent.write(0)
        fenced = World({0: OTHER}, lambda node, request: answered(request, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
        fenced.write(0)
        await turns()
        assert gone.told == silent.told == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert fenced.told == [(0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)]
        gone.write(0)
        await turns()
        assert len(gone.peers.asked) == 2, "the next one is asked for again"

    asyncio.run(story())


def test_markers_that_are_denied_are_tried_again_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def story() -> None:
        world = World({0: OTHER}, lambda node, request: answered(request, denied))
        for _ in range(3):
            world.write(0)
            await turns()
        assert world.told == [(0, denied)] * 3

    asyncio.run(story())
    assert [vars(one)["fields"] for one in caplog.records] == [{"node": OTHER, "of": "WriteTxnMarkers"}]


def test_an_answer_that_nobody_understands_leaves_no_marker_behind() -> None:
    """A transaction waits for what is told of each: that is tried again, also where asking has failed in itself."""

    async def story() -> None:
        world = World({0: OTHER, 1: OTHER}, lambda node, request: object())
        world.peers.gate.clear()
        world.write(0)
        await turns()
        world.write(1)
        world.peers.gate.set()
        await turns()
        assert world.told == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        world.write(0)
        await turns()
        assert len(world.told) == 3, "and the next is asked for again"

    asyncio.run(story())
