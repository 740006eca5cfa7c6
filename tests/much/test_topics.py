"""Thousands of topics, and a topic of thousands of partitions: whatever is asked of all of them, others get a turn."""

import asyncio

from protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.transactions import DescribeProducersRequest, TopicRequest
from protocol.records.record import NewRecord, build_batch
from tests.much.place import Place, told, topic

TOPICS = 8_000
CHANGED = 4_000
PARTITIONS = 9_000
BROKER, TOPIC = 4, 2
"""Types of resources."""


def _altered(resource_type: int, name: str) -> IncrementalAlterConfigsRequestAlterConfigsResource:
    config = "retention.ms" if resource_type == TOPIC else "log.retention.ms"
    change = IncrementalAlterConfigsRequestAlterableConfig(name=config, config_operation=0, value="100000000")
    return IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=[change]
    )


def test_thousands_of_topics() -> None:
    names = [f"t{number}" for number in range(TOPICS)]

    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(*(topic(name) for name in names))
        answer = await place.ask(MetadataRequest(topics=None))
        assert len(answer.topics) == TOPICS
        answer = await place.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]))
        assert {one.error_code for one in answer.topics} == {0}
        wanted = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"])
            for name in names
        ]
        answer = await place.ask(DescribeConfigsRequest(resources=wanted))
        assert {len(one.configs) for one in answer.results} == {1}
        for resources in [_altered(TOPIC, name) for name in names[:CHANGED]], [_altered(BROKER, "")]:
            answer = await place.ask(IncrementalAlterConfigsRequest(resources=resources, validate_only=False))
            assert {one.error_code for one in answer.responses} == {0}
        gone = [DeleteTopicState(name=name) for name in names]
        answer = await place.ask(DeleteTopicsRequest(topics=gone, timeout_ms=1000))
        assert {one.error_code for one in answer.responses} == {0}

    assert told(story) == []


def test_a_topic_of_thousands_of_partitions() -> None:
    """Asked for what is in it, written, read and trimmed."""
    every = range(PARTITIONS)

    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(topic("wide", PARTITIONS))
        (described,) = (await place.ask(MetadataRequest(topics=None))).topics
        assert len(described.partitions) == PARTITIONS
        topic_id = described.topic_id
        latest = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in every]
        await place.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="wide", partitions=latest)]))
        await _produce(place, topic_id)
        wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in every]
        fetch = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 26,
            session_epoch=0,
            topics=[FetchTopic(topic_id=topic_id, partitions=wanted)],
        )
        answer = await place.ask(fetch)
        assert sum(bool(one.records) for one in answer.responses[0].partitions) == PARTITIONS
        epochs = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in every]
        asked = OffsetForLeaderTopic(topic="wide", partitions=epochs)
        await place.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked]))
        await place.ask(DescribeProducersRequest(topics=[TopicRequest(name="wide", partition_indexes=list(every))]))
        trimmed = [DeleteRecordsPartition(partition_index=index, offset=1) for index in every]
        trim = DeleteRecordsTopic(name="wide", partitions=trimmed)
        answer = await place.ask(DeleteRecordsRequest(topics=[trim], timeout_ms=1000))
        assert {one.error_code for one in answer.topics[0].partitions} == {0}

    assert told(story) == []


async def _produce(place: Place, topic_id: bytes) -> None:
    """A record of one producer into each partition."""
    batch = build_batch([NewRecord(value=b"value", timestamp_ms=1)], producer_id=1, producer_epoch=0, base_sequence=0)
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    topics = [TopicProduceData(topic_id=topic_id, partition_data=data)]
    answer = await place.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics))
    assert {one.error_code for one in answer.responses[0].partition_responses} == {0}


def test_what_is_done_to_thousands_of_partitions_every_so_often() -> None:
    """Retention, the forgetting of producers, checkpoints; and deletion."""

    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(topic("wide", PARTITIONS))
            (described,) = (await place.ask(MetadataRequest(topics=None))).topics
            await _produce(place, described.topic_id)
        await asyncio.sleep(7)
        node = place.broker.node
        assert node is not None
        assert not any(len(one.derived.producers) for one in node.services.topics.opened())
        answer = await place.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")], timeout_ms=1000))
        assert answer.responses[0].error_code == 0

    settings = {
        "log.retention.check.interval.ms": "4100",
        "producer.id.expiration.ms": "3000",
        "producer.id.expiration.check.interval.ms": "5000",
    }
    assert told(story, **settings) == []
