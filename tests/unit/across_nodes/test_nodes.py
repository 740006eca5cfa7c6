"""What a node knows of the others: as far as it is durable, and nothing of partitions that there are not."""

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from broker.api.described_topics import DescribedTopics
from broker.api.handlers.topics import describe_topic_partitions
from broker.config.listeners import Endpoint
from broker.config.topic_config import TopicConfig
from broker.coordination.across_nodes.nodes import LISTED_MS, SharedNodes
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from coordinator.cluster.image import BrokerImage, ClusterImage
from coordinator.cluster.records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.codec import metadata_frame
from protocol.errors import ErrorCode
from protocol.messages.metadata import DescribeTopicPartitionsRequest, TopicRequest
from tests.harness.work_clock import WorkClock
from tests.unit.across_nodes.rig import ME, OTHER, THIRD

ID = b"t" * 16
HERE = {"PLAINTEXT": Endpoint("PLAINTEXT", "here", 1)}


class World:
    def __init__(self) -> None:
        self.image = ClusterImage()
        self.image.leader_changes = deque()
        self.durable_offset = 0
        self.now_ms = 0
        self.listeners: list[Any] = []
        cluster: Any = self
        caught_up: Any = None
        self.nodes = SharedNodes(
            cluster, ME, HERE, controller=lambda: OTHER, caught_up=caught_up, now_ms=lambda: self.now_ms
        )
        self.moved: list[dict[bytes, list[int]]] = []
        self.nodes.on_moved = self.moved.append

    def on_durable(self, listener: Any) -> None:
        self.listeners.append(listener)

    def write(self, *records: object) -> None:
        for record in records:
            version = 0 if isinstance(record, TopicRecord | RemoveTopicRecord) else 1
            self.image.replay(self.image.last_offset + 1, metadata_frame(record, version))

    def commit(self) -> None:
        self.durable_offset = self.image.last_offset + 1
        for listener in self.listeners:
            listener()


def partition(index: int, leader: int, epoch: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=ID,
        replicas=[leader],
        isr=[leader],
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=0,
    )


def moved(index: int, leader: int, epoch: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=ID, leader=leader, leader_epoch=epoch)


def test_only_what_is_durable_is_known() -> None:
    """An epoch that is not may be given to somebody else again."""
    world = World()
    world.write(TopicRecord(name="t", topic_id=ID), partition(0, ME, 3), partition(1, OTHER, 3))
    assert world.nodes.leader(ID, 0) == (-1, -1) and not world.nodes.leads(ID, 0)
    world.commit()
    assert [world.nodes.leader(ID, index) for index in (0, 1)] == [(ME, 3), (OTHER, 3)]
    world.write(moved(0, THIRD, 4))
    assert (world.nodes.leader(ID, 0), world.nodes.epoch(ID, 0), world.nodes.leads(ID, 0)) == ((ME, 3), 3, True)
    world.commit()
    assert world.nodes.leader(ID, 0) == (THIRD, 4)
    assert world.moved == [{ID: [0, 1]}, {ID: [0]}] and world.nodes.revision == 2


def test_nobody_leads_what_is_not_there() -> None:
    world = World()
    world.write(TopicRecord(name="t", topic_id=ID), partition(0, ME, 3))
    world.commit()
    assert [world.nodes.leader(ID, index) for index in (-1, 1)] == [(-1, -1)] * 2
    assert world.nodes.leader(b"u" * 16, 0) == (-1, -1)
    world.write(RemoveTopicRecord(topic_id=ID))
    world.commit()
    assert world.nodes.leader(ID, 0) == (-1, -1)


def registered(node_id: int, listener: str) -> RegisterBrokerRecord:
    end_point = BrokerEndpoint(name=listener, host=f"host{node_id}", port=9, security_protocol=0)
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=bytes(16),
        broker_epoch=node_id,
        end_points=[end_point],
        features=[],
        rack="r",
    )


def test_a_node_that_has_gone_is_listed_for_a_while() -> None:
    """librdkafka would wait for good for a coordinator that it hears no more of."""
    world = World()

    def seen(*, others: bool, third: bool | None) -> list[tuple[int, bool]]:
        world.image.brokers = {OTHER: BrokerImage(registered(OTHER, "PLAINTEXT"), fenced=not others)}
        if third is not None:
            world.image.brokers[THIRD] = BrokerImage(registered(THIRD, "PLAINTEXT"), fenced=not third)
        listed = [(one.node_id, one.serves) for one in world.nodes.listed("PLAINTEXT")]
        assert [one.node_id for one in world.nodes.reached("PLAINTEXT")] == [node for node, serves in listed if serves]
        return listed

    assert seen(others=True, third=False) == [(ME, True), (OTHER, True)], "it had gone before this one served"
    assert seen(others=False, third=True) == [(ME, True), (OTHER, False), (THIRD, True)]
    world.now_ms += LISTED_MS - 1
    assert seen(others=False, third=False) == [(ME, True), (OTHER, False), (THIRD, False)]
    assert world.nodes.reach(OTHER, "PLAINTEXT") is None
    world.now_ms += 1
    assert seen(others=False, third=False) == [(ME, True), (THIRD, False)]
    assert seen(others=True, third=None) == [(ME, True), (OTHER, True)], "it was forgotten"
    assert seen(others=False, third=False) == [(ME, True), (OTHER, False)]


def test_who_is_reached_and_where() -> None:
    world = World()
    world.image.brokers = {
        OTHER: BrokerImage(registered(OTHER, "PLAINTEXT"), fenced=False),
        THIRD: BrokerImage(registered(THIRD, "PLAINTEXT"), fenced=True),
        4: BrokerImage(registered(4, "INTERNAL"), fenced=False),
    }
    assert [(one.node_id, one.endpoint.host, one.rack) for one in world.nodes.reached("PLAINTEXT")] == [
        (ME, "here", None),
        (OTHER, "host2", "r"),
    ]
    assert world.nodes.reach(THIRD, "PLAINTEXT") is None and world.nodes.reach(9, "PLAINTEXT") is None
    assert world.nodes.reach(4, "INTERNAL") == Endpoint("INTERNAL", "host4", 9)
    assert (world.image.living, world.nodes.controller_id) == ((OTHER, 4), OTHER)
    assert not world.nodes.is_alone


def test_a_leader_that_is_not_reached_is_none() -> None:
    """It has left, and nobody leads its partitions yet. kafka-python never recovers from a leader that is not among the
    nodes of the same response."""

    async def story() -> None:
        world = World()
        world.write(TopicRecord(name="t", topic_id=ID), *(partition(index, 1 + index, 4) for index in range(3)))
        world.commit()
        config = TopicConfig()
        topic = Topic("t", ID, config, lambda index: cast(Any, None))
        topic.partitions.grow(3)
        described = DescribedTopics()
        never_spent = TimeSlice(WorkClock().now)

        async def told(*reached: int) -> list[tuple[int, int, list[int], list[int], int]]:
            found = await described.of(
                topic, nodes=world.nodes, reached=frozenset(reached), operations=0, time_slice=never_spent
            )
            return [
                (one.leader_id, one.leader_epoch, one.isr_nodes, one.offline_replicas, one.error_code)
                for one in found.partitions
            ]

        absent = ErrorCode.LEADER_NOT_AVAILABLE
        assert await told(ME, THIRD) == [
            (ME, 4, [ME], [], 0),
            (-1, 4, [OTHER], [OTHER], absent),
            (THIRD, 4, [3], [], 0),
        ]
        assert [one[0] for one in await told(ME, OTHER, THIRD)] == [ME, OTHER, THIRD]
        assert [one[0] for one in await told(ME)] == [ME, -1, -1]
        world.image.brokers = {THIRD: BrokerImage(registered(THIRD, "PLAINTEXT"), fenced=False)}
        services: Any = SimpleNamespace(
            environment=SimpleNamespace(time_slice=lambda: never_spent),
            nodes=world.nodes,
            topics=SimpleNamespace(by_name=lambda name: topic),
            config=SimpleNamespace(get_int=lambda key: 100),
        )
        context: Any = SimpleNamespace(connection=SimpleNamespace(listener="PLAINTEXT"))
        asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        answer = await describe_topic_partitions(services, context, asked)
        assert [(one.leader_id, one.offline_replicas, one.error_code) for one in answer.topics[0].partitions] == [
            (ME, [], 0),
            (-1, [OTHER], absent),
            (THIRD, [], 0),
        ]

    asyncio.run(story())
