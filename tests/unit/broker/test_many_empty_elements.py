"""Requests of many elements that hold nothing, and of more than may be changed at once, through the handlers of a node:
others have their turn all the same.
"""

from collections.abc import Callable
from typing import Any

import pytest

from broker.api.handlers.groups import LEAVING_AT_ONCE, PROTOCOLS_MOST
from broker.api.services import Services
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
)
from protocol.messages.metadata import DescribeTopicPartitionsRequest, MetadataRequest, MetadataRequestTopic
from protocol.messages.metadata import TopicRequest as NamedTopic
from protocol.messages.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import ProduceRequest, TopicProduceData
from protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    ListTransactionsRequest,
    TopicRequest,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from tests.harness.turns import Turns
from tests.unit.cluster.cluster_rig import handle, topic, with_node
from tests.unit.groups.wire import commit, join

COUNT = 400
NAMES = [f"n{number}" for number in range(COUNT)]
TOO_MANY = [f"n{number}" for number in range(MOST_RECORDS_PER_REQUEST + 1)]
TOPIC = 2
Elements = Callable[[Any], list[Any]]


def transactions() -> AddPartitionsToTxnRequest:
    one = AddPartitionsToTxnTransaction(
        transactional_id="", producer_id=1, producer_epoch=0, verify_only=True, topics=[]
    )
    return AddPartitionsToTxnRequest(transactions=[one] * COUNT)


def markers() -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=number, producer_epoch=0, transaction_result=False, topics=[], coordinator_epoch=0
            )
            for number in range(COUNT)
        ]
    )


def staged() -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=[]) for name in NAMES],
    )


def deleted_offsets() -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(COUNT)]
    return OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])


def produced() -> ProduceRequest:
    topics = [TopicProduceData(name=name, partition_data=[]) for name in NAMES]
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=1, topic_data=topics)


def described_in_parts() -> DescribeConfigsRequest:
    parts = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=[name]) for name in NAMES
    ]
    return DescribeConfigsRequest(resources=parts)


EMPTY: list[tuple[Any, int, Elements, int]] = [
    (
        lambda: OffsetCommitRequest(
            group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name=name, partitions=[]) for name in NAMES]
        ),
        8,
        lambda answer: answer.topics,
        COUNT,
    ),
    (staged, 3, lambda answer: answer.topics, COUNT),
    (
        lambda: OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[]) for name in NAMES]
        ),
        7,
        lambda answer: answer.topics,
        COUNT,
    ),
    (deleted_offsets, 0, lambda answer: answer.topics[0].partitions, COUNT),
    (produced, 9, lambda answer: answer.responses, COUNT),
    (
        lambda: ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[]) for name in NAMES]
        ),
        6,
        lambda answer: answer.topics,
        COUNT,
    ),
    (
        lambda: OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[]) for name in NAMES]),
        4,
        lambda answer: answer.topics,
        COUNT,
    ),
    (
        lambda: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[]) for name in NAMES], timeout_ms=1
        ),
        2,
        lambda answer: answer.topics,
        COUNT,
    ),
    (
        lambda: DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[])] * COUNT, timeout_ms=1),
        2,
        lambda answer: answer.topics,
        1,
    ),
    (
        lambda: DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[]) for name in NAMES]),
        0,
        lambda answer: answer.topics,
        COUNT,
    ),
    (transactions, 4, lambda answer: answer.results_by_transaction, COUNT),
    (markers, 1, lambda answer: answer.markers, COUNT),
    (
        lambda: ListTransactionsRequest(state_filters=NAMES, producer_id_filters=[]),
        0,
        lambda answer: answer.unknown_state_filters,
        COUNT,
    ),
    (described_in_parts, 4, lambda answer: answer.results, 1),
    (
        lambda: MetadataRequest(topics=[MetadataRequestTopic(name="t")] * COUNT, allow_auto_topic_creation=False),
        9,
        lambda answer: answer.topics,
        1,
    ),
]


@pytest.mark.parametrize(
    ("request_of", "version", "elements", "count"), EMPTY, ids=[type(one[0]()).__name__ for one in EMPTY]
)
def test_elements_that_hold_nothing_give_way(
    request_of: Callable[[], Any], version: int, elements: Elements, count: int
) -> None:
    async def story(services: Services) -> None:
        await services.topics.create([topic("t", 2)])
        await services.topics.ensure_internal("__consumer_offsets")
        await handle(services, commit(1, group_id="g"), 8)
        turns = Turns(services.environment)
        answer = await handle(services, request_of(), version)
        assert len(elements(answer)) == count
        assert turns.waited >= 5

    with_node(story)


def test_topics_are_described_in_order_and_each_once() -> None:
    """However many, in whatever order they are named; from the cursor on."""

    async def story(services: Services) -> None:
        turns = Turns(services.environment)
        named = [f"{number * 7919 % 5003:04}" for number in range(5003)]
        request = DescribeTopicPartitionsRequest(topics=[NamedTopic(name=name) for name in named + named])
        answer = await handle(services, request, 0)
        assert [one.name for one in answer.topics] == sorted(named)
        assert turns.waited >= 5 * 5003 // COUNT

    with_node(story)


ALTERED = IncrementalAlterConfigsRequestAlterableConfig(name="retention.ms", config_operation=0, value="1")
CHANGES: list[tuple[Any, int, Elements]] = [
    (
        lambda: CreateTopicsRequest(topics=[topic(name, 1) for name in TOO_MANY], timeout_ms=1),
        5,
        lambda answer: answer.topics,
    ),
    (lambda: CreateTopicsRequest(topics=[topic("wide", len(TOO_MANY))], timeout_ms=1), 5, lambda answer: answer.topics),
    (lambda: DeleteTopicsRequest(topic_names=["t", *TOO_MANY], timeout_ms=1), 4, lambda answer: answer.responses),
    (
        lambda: DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in ["t", *TOO_MANY]], timeout_ms=1),
        6,
        lambda answer: answer.responses,
    ),
    (
        lambda: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ["t", *TOO_MANY]],
            timeout_ms=1,
            validate_only=False,
        ),
        1,
        lambda answer: answer.results,
    ),
    (
        lambda: AlterConfigsRequest(
            resources=[
                AlterConfigsRequestAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[])
                for name in ["t", *TOO_MANY]
            ],
            validate_only=False,
        ),
        1,
        lambda answer: answer.responses,
    ),
    (
        lambda: IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=TOPIC, resource_name="t", configs=[ALTERED] * len(TOO_MANY)
                )
            ],
            validate_only=False,
        ),
        1,
        lambda answer: answer.responses,
    ),
]


KINDS = ["topics", "partitions", "deletions", "deletions by id", "growth", "resources", "settings"]


@pytest.mark.parametrize(("request_of", "version", "results"), CHANGES, ids=KINDS)
def test_nobody_changes_more_at_once_than_may_be(
    request_of: Callable[[], Any], version: int, results: Elements
) -> None:
    """Ten thousand records, as in Kafka; a request for more changes nothing, and its refusals give way to others."""

    async def story(services: Services) -> None:
        await services.topics.create([topic("t", 2, configs={"retention.ms": "7"})])
        before = services.cluster.shard.log.end_offset
        turns = Turns(services.environment)
        responses = results(await handle(services, request_of(), version))
        assert {one.error_code for one in responses} <= {ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_PARTITIONS}
        assert services.cluster.shard.log.end_offset == before
        assert len(responses) == 1 or turns.waited >= 5 * len(responses) // COUNT

    with_node(story)


def test_topics_that_are_too_many_to_be_made_are_unknown() -> None:
    async def story(services: Services) -> None:
        before = services.cluster.shard.log.end_offset
        answer = await handle(services, MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in TOO_MANY]), 9)
        assert {one.error_code for one in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert services.cluster.shard.log.end_offset == before

    with_node(story)


def test_members_with_too_many_protocols_are_refused() -> None:
    async def story(services: Services) -> None:
        await services.topics.ensure_internal("__consumer_offsets")
        for count, error in ((PROTOCOLS_MOST, ErrorCode.MEMBER_ID_REQUIRED), (PROTOCOLS_MOST + 1, 23)):
            request: JoinGroupRequest = join()
            request.protocols = [JoinGroupRequestProtocol(name=f"p{one}", metadata=b"") for one in range(count)]
            assert (await handle(services, request, 5)).error_code == error

    with_node(story)


def test_many_members_leave_in_steps() -> None:
    async def story(services: Services) -> None:
        await services.topics.ensure_internal("__consumer_offsets")
        members = [MemberIdentity(member_id=f"m{number}") for number in range(2 * LEAVING_AT_ONCE + 1)]
        member = (await handle(services, join(), 5)).member_id
        members[LEAVING_AT_ONCE + 1].member_id = member
        answer = await handle(services, LeaveGroupRequest(group_id=join().group_id, members=members), 3)
        assert [one.member_id for one in answer.members] == [one.member_id for one in members]
        errors = [one.error_code for one in answer.members]
        assert errors.pop(LEAVING_AT_ONCE + 1) == ErrorCode.NONE
        assert set(errors) == {ErrorCode.UNKNOWN_MEMBER_ID}

    with_node(story)


def test_others_have_their_turn_between_two_steps_of_those_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.api.handlers.groups.LEAVING_AT_ONCE", 1)

    async def story(services: Services) -> None:
        await services.topics.ensure_internal("__consumer_offsets")
        members = [MemberIdentity(member_id=f"m{number}") for number in range(300)]
        turns = Turns(services.environment)
        answer = await handle(services, LeaveGroupRequest(group_id=join().group_id, members=members), 3)
        assert len(answer.members) == 300 and turns.waited > 5

    with_node(story)


def test_many_groups_are_listed_in_steps() -> None:
    async def story(services: Services) -> None:
        await services.topics.create([topic("t", 2)])
        await services.topics.ensure_internal("__consumer_offsets")
        for name in NAMES:
            await handle(services, commit(1, group_id=name), 8)
        turns = Turns(services.environment)
        answer = await handle(services, ListGroupsRequest(states_filter=["EMPTY"], types_filter=["Classic"]), 5)
        assert sorted(one.group_id for one in answer.groups) == sorted(NAMES)
        assert turns.waited >= 5

    with_node(story)
