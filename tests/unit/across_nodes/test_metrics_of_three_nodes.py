"""What each of three nodes tells Prometheus of the cluster: one of them is the controller, all know the same nodes,
what another one leads is not offline, and how far a group is behind there."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.api.services import Services
from broker.http.metrics import groups, state, topics
from broker.http.metrics.metric import Family
from broker.http.metrics.records_behind import CountedRecords
from coordinator.cluster.leaders import NOBODY
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.record import NewRecord, build_batch
from tests.unit.across_nodes.three_nodes import ThreeNodes, until, with_three_nodes
from tests.unit.transactions.node_rig import ask

PREFIX = "kafka_controller_kafkacontroller_"
CONTROLLERS, BROKERS, FENCED = (f"{PREFIX}{name}count" for name in ("activecontroller", "activebroker", "fencedbroker"))
OFFLINE, ALL_TOPICS, ALL_PARTITIONS = (
    f"{PREFIX}{name}count" for name in ("offlinepartitions", "globaltopic", "globalpartition")
)
OPEN, OFFLINE_HERE = (f"kafka_server_replicamanager_{name}count" for name in ("partition", "offlinereplica"))
PARTITIONS = 5


def read(families: Iterable[Family]) -> dict[str, float]:
    """Those that have no labels."""
    text = b"".join(one.text() for one in families).decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {one.name: one.value for one in samples if not one.labels}


def of_state(services: Services) -> dict[str, float]:
    server = SimpleNamespace(accepted=0, refused_for_descriptors=0)
    broker: Any = SimpleNamespace(services=services, server=server, monitor=None)
    return read(state.families(broker, state.Look()))


async def of_topics(services: Services) -> dict[str, float]:
    return read(topics.families(await topics.look(services), topics.Totals()))


def test_one_of_them_is_the_controller_and_all_know_the_same_nodes(tmp_path: Any) -> None:
    async def story(nodes: ThreeNodes) -> None:
        def told(name: str) -> list[float]:
            return [of_state(one)[name] for one in nodes.by_id.values()]

        await until(lambda: told(BROKERS) == [3, 3, 3])
        first = nodes.controller
        assert told(CONTROLLERS) == [float(node_id == first) for node_id in nodes.by_id]
        assert told(FENCED) == [0, 0, 0]
        await nodes.together.kill(first)
        await until(lambda: sorted(told(CONTROLLERS)) == [0, 1])
        await until(lambda: told(BROKERS) == [2, 2] and told(FENCED) == [1, 1])
        await nodes.together.start_again(first)
        await until(lambda: told(BROKERS) == [3, 3, 3] and told(FENCED) == [0, 0, 0])
        assert sorted(told(CONTROLLERS)) == [0, 0, 1]

    with_three_nodes(story, tmp_path)


def test_what_another_node_leads_is_not_offline_and_what_nobody_leads_is(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(nodes: ThreeNodes) -> None:
        services = nodes.by_id.values()
        await next(iter(services)).topics.auto_create_all(["t"])
        for node_id in nodes.by_id:
            await nodes.known_at(node_id, "t")
        topic = next(iter(services)).topics.by_name("t")
        assert topic is not None
        await until(lambda: sum(len(one.topics.by_name("t").partitions.opened()) for one in services) == PARTITIONS)  # type: ignore[union-attr]
        told = [await of_topics(one) for one in services]
        assert sum(one[OPEN] for one in told) == PARTITIONS
        assert [one[OPEN] < PARTITIONS for one in told] == [True] * 3, "each leads some"
        for one in told:
            assert (one[ALL_TOPICS], one[ALL_PARTITIONS]) == (1, PARTITIONS)
            assert (one[OFFLINE], one[OFFLINE_HERE]) == (0, 0)
        asked = nodes.by_id[1]
        elsewhere = [index for index in range(PARTITIONS) if not asked.nodes.leads(topic.topic_id, index)]
        leader = asked.nodes.leader
        monkeypatch.setattr(
            asked.nodes,
            "leader",
            lambda topic_id, index: (NOBODY, 0) if index == elsewhere[0] else leader(topic_id, index),
        )
        found = await of_topics(asked)
        assert (found[OFFLINE], found[OFFLINE_HERE]) == (1, 0)

    with_three_nodes(story, tmp_path, {"num.partitions": str(PARTITIONS)})


async def commit(services: Services, topic: str, offsets: dict[int, int]) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=None)
        for index, offset in offsets.items()
    ]
    topics_ = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    while True:
        answer = await ask(services, OffsetCommitRequest(group_id="g", member_id="", topics=topics_), 8)
        if not any(one.error_code for one in answer.topics[0].partitions):
            return


async def write(nodes: ThreeNodes, leader: int, topic: str, count: int) -> None:
    records = memoryview(build_batch([NewRecord(value=b"v", timestamp_ms=1)] * count))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    answer = await nodes.answer_of(leader, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def lags_of(services: Services) -> dict[int, tuple[int, int | None]]:
    """Of the group, by partition: in offsets, and in records, where that is told."""
    seen = await groups.look(services, CountedRecords())
    assert seen.worst == max([0, *seen.sums.values()])
    return {line.key[2]: (line.lag, line.records) for line in seen.lines}


def test_how_far_a_group_is_behind_is_told_of_what_others_lead_too(tmp_path: Any) -> None:
    """By the node that coordinates it, and by no other: a sum over the nodes is right."""

    async def story(nodes: ThreeNodes) -> None:
        await nodes.by_id[nodes.controller].topics.ensure_internal(CONSUMER_OFFSETS)
        for node_id in nodes.by_id:
            await nodes.known_at(node_id, CONSUMER_OFFSETS)
        coordinator, _ = nodes.by_id[nodes.controller].topics.leader(CONSUMER_OFFSETS, 0)
        leader = next(node_id for node_id in nodes.by_id if node_id != coordinator)
        await nodes.make_topic("t", leader)
        for node_id in nodes.by_id:
            await nodes.known_at(node_id, "t")
        await write(nodes, leader, "t", 3)
        await commit(nodes.by_id[coordinator], "t", {0: 1})
        assert await lags_of(nodes.by_id[coordinator]) == {0: (2, None)}
        assert [await lags_of(one) for node_id, one in nodes.by_id.items() if node_id != coordinator] == [{}, {}]
        await nodes.together.kill(leader)
        while (found := await lags_of(nodes.by_id[coordinator])).get(0, (0, 0))[0] != 2:
            assert found == {}, "until it is open again, nobody says where it ends"
            await asyncio.sleep(0.01)

    with_three_nodes(story, tmp_path)


def test_who_may_have_been_replaced_does_not_say_how_far_a_group_is_behind(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(nodes: ThreeNodes) -> None:
        await nodes.by_id[nodes.controller].topics.ensure_internal(CONSUMER_OFFSETS)
        coordinator, _ = nodes.by_id[nodes.controller].topics.leader(CONSUMER_OFFSETS, 0)
        await nodes.make_topic("t", coordinator)
        services = nodes.by_id[coordinator]
        await write(nodes, coordinator, "t", 3)
        await commit(services, "t", {0: 1})
        assert await lags_of(services) == {0: (2, 2)}
        partition = services.topics.partition("t", 0)
        monkeypatch.setattr(type(partition), "refusal", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await lags_of(services) == {}

    with_three_nodes(story, tmp_path)
