"""Requests of many elements, through the handlers of a node: others have their turn, and the answer is whole."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.services import Services
from protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest
from protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from protocol.messages.metadata import TopicRequest as NamedTopic
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
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.batch import read_header
from protocol.records.record import NewRecord, build_batch
from tests.harness.turns import Turns
from tests.unit.cluster.cluster_rig import handle, topic, with_node

COUNT = 400
INDEXES = list(range(COUNT))
NAMES = [f"n{number}" for number in INDEXES]
TOPIC, BROKER = 2, 4


def committed() -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
        for index in INDEXES
    ]
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
    )


def listed() -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in INDEXES]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="t", partitions=partitions)]
    )


def epochs() -> OffsetForLeaderEpochRequest:
    partitions = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in INDEXES]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=partitions)])


def trimmed() -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=0) for index in INDEXES]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1)


def produced() -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=memoryview(b"")) for index in INDEXES]
    return ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
    )


def markers() -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="nowhere", partition_indexes=INDEXES)],
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def added() -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=INDEXES)],
    )


REQUESTS: list[tuple[str, Callable[[], Any], int, Callable[[Any], list[Any]]]] = [
    ("Produce", produced, 9, lambda answer: answer.responses[0].partition_responses),
    ("ListOffsets", listed, 6, lambda answer: answer.topics[0].partitions),
    (
        "Metadata",
        lambda: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in NAMES], allow_auto_topic_creation=False
        ),
        9,
        lambda answer: answer.topics,
    ),
    ("OffsetCommit", committed, 8, lambda answer: answer.topics[0].partitions),
    (
        "OffsetFetch",
        lambda: OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=INDEXES)]),
        7,
        lambda answer: answer.topics[0].partitions,
    ),
    (
        "FindCoordinator",
        lambda: FindCoordinatorRequest(key_type=7, coordinator_keys=NAMES),
        4,
        lambda answer: answer.coordinators,
    ),
    ("DescribeGroups", lambda: DescribeGroupsRequest(groups=NAMES), 5, lambda answer: answer.groups),
    ("DeleteGroups", lambda: DeleteGroupsRequest(groups_names=NAMES), 2, lambda answer: answer.results),
    ("DeleteRecords", trimmed, 2, lambda answer: answer.topics[0].partitions),
    ("OffsetForLeaderEpoch", epochs, 4, lambda answer: answer.topics[0].partitions),
    ("AddPartitionsToTxn", added, 3, lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition),
    ("WriteTxnMarkers", markers, 1, lambda answer: answer.markers[0].topics[0].partitions),
    (
        "DescribeConfigs",
        lambda: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
                for name in NAMES
            ]
        ),
        4,
        lambda answer: answer.results,
    ),
    (
        "DescribeProducers",
        lambda: DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=INDEXES)]),
        0,
        lambda answer: answer.topics[0].partitions,
    ),
    (
        "DescribeTransactions",
        lambda: DescribeTransactionsRequest(transactional_ids=NAMES),
        0,
        lambda answer: answer.transaction_states,
    ),
    (
        "DescribeTopicPartitions",
        lambda: DescribeTopicPartitionsRequest(topics=[NamedTopic(name=name) for name in NAMES]),
        0,
        lambda answer: answer.topics,
    ),
]


@pytest.mark.parametrize(("api", "request_of", "version", "elements"), REQUESTS, ids=[one[0] for one in REQUESTS])
def test_a_large_request_gives_way(
    api: str, request_of: Callable[[], Any], version: int, elements: Callable[[Any], list[Any]]
) -> None:
    async def story(services: Services) -> None:
        await services.topics.create([topic("t", 2)])
        await services.topics.ensure_internal("__consumer_offsets")
        turns = Turns(services.environment)
        answer = await handle(services, request_of(), version)
        assert len(elements(answer)) == COUNT
        assert turns.waited >= 5

    with_node(story)


def test_metadata_of_one_wide_topic_gives_way() -> None:
    async def story(services: Services) -> None:
        await services.topics.create([topic("wide", 5_000)])
        turns = Turns(services.environment)
        answer = await handle(services, MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
        assert [one.partition_index for one in answer.topics[0].partitions] == list(range(5_000))
        assert turns.waited >= 3

    with_node(story)


def test_what_is_named_again_is_described_once() -> None:
    """Kafka describes it each time: ten kilobytes bring twenty megabytes."""

    async def story(services: Services) -> None:
        await services.topics.create([topic("t", 2)])
        configs = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=keys)
            for keys in (["retention.ms"], ["segment.ms"], ["retention.ms"])
        ] + [DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)] * 3
        answer = await handle(services, DescribeConfigsRequest(resources=configs), 4)
        assert [(one.resource_type, one.resource_name) for one in answer.results] == [(TOPIC, "t"), (BROKER, "1")]
        assert {one.name for one in answer.results[0].configs} == {"retention.ms", "segment.ms"}
        groups = await handle(services, DescribeGroupsRequest(groups=["a", "b", "a"]), 5)
        assert [one.group_id for one in groups.groups] == ["a", "b"]
        ids = await handle(services, DescribeTransactionsRequest(transactional_ids=["a", "b", "a"]), 0)
        assert [one.transactional_id for one in ids.transaction_states] == ["a", "b"]
        named = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 0])])
        producers = await handle(services, named, 0)
        assert [one.partition_index for one in producers.topics[0].partitions] == [0, 1]
        trimmed = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])] * 2
        deleted = await handle(services, DeleteRecordsRequest(topics=trimmed, timeout_ms=1), 2)
        assert [len(one.partitions) for one in deleted.topics] == [1]

    with_node(story)


def test_the_producers_of_one_partition_give_way() -> None:
    """A million of them may be described in one answer."""

    async def story(services: Services) -> None:
        await services.topics.create([topic("t", 1)])
        partition = services.topics.partition("t", 0)
        assert partition is not None
        state = partition.derived.producers
        for producer_id in range(COUNT):
            batch = build_batch([NewRecord(value=b"v", timestamp_ms=1)], producer_id=producer_id, base_sequence=7)
            state.apply_data(read_header(batch), state.offset, 1)
        turns = Turns(services.environment)
        named = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
        gc.collect()
        objects = len(gc.get_objects())
        (result,) = (await handle(services, named, 0)).topics[0].partitions
        gc.collect()
        assert len(gc.get_objects()) - objects < COUNT // 2, "the collector would look at each of them"
        assert len(result.active_producers) == COUNT
        assert [(one.producer_id, one.last_sequence) for one in result.active_producers] == [(n, 7) for n in INDEXES]
        assert turns.waited >= 5

    with_node(story)


def test_a_fetch_session_gives_way_where_many_partitions_are_forgotten() -> None:
    def fetch(session_id: int, epoch: int, named: list[int], forgotten: list[int]) -> FetchRequest:
        partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in named]
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic="t", partitions=partitions)],
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forgotten)],
        )

    async def story(services: Services) -> None:
        answer = await handle(services, fetch(0, 0, list(range(1000)), []), 12)
        turns = Turns(services.environment)
        left = await handle(services, fetch(answer.session_id, 1, [], list(range(1, 1000))), 12)
        assert [one.partition_index for one in left.responses[0].partitions] == [0]
        assert turns.waited >= 5

    with_node(story)


def test_a_pattern_gives_way_within_one_id() -> None:
    async def story(services: Services) -> None:
        await services.topics.ensure_internal("__transaction_state")
        await services.transactions.wait_until_loaded()
        name = "a" * 30_000
        made = await handle(services, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4)
        assert made.error_code == 0
        turns = Turns(services.environment)
        for pattern, found in (("a+", [name]), ("a+b", [])):
            request = ListTransactionsRequest(
                state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
            )
            states = (await handle(services, request, 2)).transaction_states
            assert [one.transactional_id for one in states] == found
        assert turns.waited >= 5

    with_node(story, settings={"transaction.state.log.num.partitions": "1"})


def test_all_offsets_of_a_group_give_way() -> None:
    count = 2_500

    async def story(services: Services) -> None:
        await services.topics.create([topic("t", count)])
        await services.topics.ensure_internal("__consumer_offsets")
        offsets = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
            for index in range(count)
        ]
        topics = [OffsetCommitRequestTopic(name="t", partitions=offsets)]
        await handle(services, OffsetCommitRequest(group_id="g", member_id="", topics=topics), 8)
        turns = Turns(services.environment)
        (result,) = (await handle(services, OffsetFetchRequest(group_id="g", topics=None), 7)).topics
        assert [(one.partition_index, one.committed_offset) for one in result.partitions] == [
            (index, index) for index in range(count)
        ]
        # The answer for versions before 8 is put together in slices, too, and would wait as often.
        assert 1.5 * count / 25 < turns.waited < count / 2

    with_node(story)
