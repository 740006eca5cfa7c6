"""What the APIs of producers and transactions need."""

from functools import partial
from typing import Any

from broker.api.permissions.need import Call, Guard, Need, sift, whole
from coordinator.transactions.states import NO_EPOCH
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

BROKER_FORM = 4
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

WRITE_ID = Need(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ID_DENIED, "the transactional id")
DESCRIBE_ID = Need(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ID_DENIED, "each transactional id")
LIST_ID = Need(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, None, "each transactional id; others are left out")
READ_GROUP = Need(Operation.READ, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "the group")
WRITE_TOPIC = Need(Operation.WRITE, ResourceType.TOPIC, TOPIC_DENIED, "each topic; all or none are added")
WRITE_SOME_TOPIC = Need(
    Operation.WRITE, ResourceType.TOPIC, CLUSTER_DENIED, "any topic, where there is no transactional id (KIP-679)"
)
DESCRIBE_TOPIC = Need(Operation.DESCRIBE, ResourceType.TOPIC, None, "each topic in it; others are left out")
IDEMPOTENT_WRITE = Need(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, None, "instead of Write of any topic")
CLUSTER_ACTION = Need(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_DENIED, "version 4 and later")
MARKERS = Need(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_DENIED)
ALTER = Need(Operation.ALTER, ResourceType.CLUSTER, None, "instead of ClusterAction")

END_TXN = whole(
    WRITE_ID, lambda _, error: EndTxnResponse(error_code=error), lambda request: str(request.transactional_id)
)


def _init_producer_id(call: Call, request: InitProducerIdRequest) -> Any:
    permissions, transactional_id = call.permissions, request.transactional_id
    if transactional_id is not None:
        allowed, error = permissions.have(WRITE_ID, transactional_id), ID_DENIED
    else:
        error = CLUSTER_DENIED
        allowed = permissions.have(IDEMPOTENT_WRITE, quietly=True) or permissions.have_with_some(WRITE_SOME_TOPIC)
    return call.handled(request) if allowed else InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH)


INIT_PRODUCER_ID = Guard((WRITE_ID, IDEMPOTENT_WRITE, WRITE_SOME_TOPIC), _init_producer_id)


async def _add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    if call.context.api_version >= BROKER_FORM:
        if permissions.have(CLUSTER_ACTION):
            return await call.answer(request)  # type: ignore[no-any-return]
        return AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED)
    topics = request.v3_and_below_topics
    if not permissions.have(WRITE_ID, request.v3_and_below_transactional_id):
        return await _not_added(call, topics, dict.fromkeys((topic.name for topic in topics), ID_DENIED))
    _, denied = await sift(
        {topic.name: topic for topic in topics if topic.name not in INTERNAL_TOPICS}.values(),
        lambda topic: permissions.have(WRITE_TOPIC, topic.name),
        time_slice,
    )
    if not denied:
        return await call.answer(request)  # type: ignore[no-any-return]
    errors = {topic.name: TOPIC_DENIED for topic in denied}
    for topic in topics:
        if topic.name in INTERNAL_TOPICS:
            errors[topic.name] = TOPIC_DENIED
        elif topic.name not in errors and call.services.topics.by_name(topic.name) is None:
            errors[topic.name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await time_slice.give_way()
    return await _not_added(call, topics, errors)


async def _not_added(
    call: Call, topics: list[AddPartitionsToTxnTopic], errors: dict[str, ErrorCode]
) -> AddPartitionsToTxnResponse:
    time_slice, response = call.time_slice(), AddPartitionsToTxnResponse()
    for topic in topics:
        error = errors.get(topic.name, ErrorCode.OPERATION_NOT_ATTEMPTED)
        results = await time_slice.each(partial(_not_added_partition, error), topic.partitions)
        response.results_by_topic_v3_and_below.append(
            AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)
        )
        await time_slice.give_way()
    return response


def _not_added_partition(error: ErrorCode, index: int) -> AddPartitionsToTxnPartitionResult:
    return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)


ADD_PARTITIONS_TO_TXN = Guard((WRITE_ID, WRITE_TOPIC, CLUSTER_ACTION), _add_partitions_to_txn)


def _add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> Any:
    for need, name in ((WRITE_ID, request.transactional_id), (READ_GROUP, request.group_id)):
        if not call.permissions.have(need, name):
            assert need.error is not None
            return AddOffsetsToTxnResponse(error_code=need.error)
    return call.handled(request)


ADD_OFFSETS_TO_TXN = Guard((WRITE_ID, READ_GROUP), _add_offsets_to_txn)


async def _write_txn_markers(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    if call.permissions.have(ALTER, quietly=True) or call.permissions.have(MARKERS):
        return await call.answer(request)  # type: ignore[no-any-return]
    time_slice, response = call.time_slice(), WriteTxnMarkersResponse(markers=[])
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
        response.markers.append(result)
        for topic in marker.topics:
            partitions = await time_slice.each(
                lambda index: WritableTxnMarkerPartitionResult(partition_index=index, error_code=CLUSTER_DENIED),
                topic.partition_indexes,
            )
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            await time_slice.give_way()
        await time_slice.give_way()
    return response


WRITE_TXN_MARKERS = Guard((ALTER, MARKERS), _write_txn_markers)


async def _describe_transactions(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    request.transactional_ids, denied = await sift(
        request.transactional_ids, lambda one: permissions.have(DESCRIBE_ID, one), time_slice
    )
    response: DescribeTransactionsResponse = await call.answer(request)
    for state in response.transaction_states:
        state.topics, _ = await sift(
            state.topics, lambda topic: permissions.have(DESCRIBE_TOPIC, topic.topic, quietly=True), time_slice
        )
        await time_slice.give_way()
    response.transaction_states += await time_slice.each(_undescribed, dict.fromkeys(denied))
    return response


def _undescribed(transactional_id: str) -> DescribeTransactionsResponseTransactionState:
    return DescribeTransactionsResponseTransactionState(
        error_code=ID_DENIED,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


DESCRIBE_TRANSACTIONS = Guard((DESCRIBE_ID, DESCRIBE_TOPIC), _describe_transactions)


async def _list_transactions(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    permissions = call.permissions
    response: ListTransactionsResponse = await call.answer(request)
    response.transaction_states, _ = await sift(
        response.transaction_states,
        lambda one: permissions.have(LIST_ID, one.transactional_id, quietly=True),
        call.time_slice(),
    )
    return response


LIST_TRANSACTIONS = Guard((LIST_ID,), _list_transactions)
