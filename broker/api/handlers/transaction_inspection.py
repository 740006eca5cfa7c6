"""DescribeProducers, DescribeTransactions, ListTransactions: looking for what is stuck (KIP-664, KIP-994, KIP-1152)."""

import asyncio
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.linear_pattern import BadPattern, Pattern
from broker.api.services import WithEnvironment, WithTopics, WithTransactions
from broker.coordination.coordinators import CoordinatorError
from broker.partitions.errors import storage_error
from broker.partitions.partition import Partition
from coordinator.cluster.topic_rules import Refused, check_name
from coordinator.transactions.coordinator import Description
from coordinator.transactions.states import KNOWN_STATE_NAMES, TopicPartitions, Transaction
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    PartitionResponse,
    ProducerState,
    TopicData,
    TopicResponse,
)


class InspectionServices(WithEnvironment, WithTopics, WithTransactions, Protocol):
    """What these handlers use of the node."""


@handles(DescribeProducersRequest, DescribeProducersResponse, versions=range(0, 1))
def describe_producers(
    services: InspectionServices, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """What each partition knows of its producers; `current_txn_start_offset` tells an open transaction."""
    topics = []
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            partition = services.topics.partition(topic.name, index)
            if partition is None:
                known = services.topics.by_name(topic.name) is not None
                partitions.append(_nowhere(topic.name, index, topic_exists=known))
            elif partition.offline is not None:
                error = storage_error(partition.offline)
                partitions.append(PartitionResponse(partition_index=index, error_code=error, active_producers=[]))
            else:
                partitions.append(PartitionResponse(partition_index=index, active_producers=_producers_of(partition)))
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _nowhere(topic: str, index: int, *, topic_exists: bool) -> PartitionResponse:
    message: str | None
    try:
        check_name(topic)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = None if topic_exists else f"there is no topic {topic}"
    except Refused as refused:
        error, message = refused.error, refused.message
    return PartitionResponse(partition_index=index, error_code=error, error_message=message, active_producers=[])


def _producers_of(partition: Partition) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp_ms,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.transaction_first_offset,
        )
        for producer_id, entry in partition.describe_producers()
    ]


@handles(DescribeTransactionsRequest, DescribeTransactionsResponse, versions=range(0, 1))
async def describe_transactions(
    services: InspectionServices, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """What the coordinator knows of given ids; in a PREPARE state, the partitions that still lack their marker."""
    described = [await _describe(services, transactional_id) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=described)


async def _describe(
    services: InspectionServices, transactional_id: str
) -> DescribeTransactionsResponseTransactionState:
    answer = Description(ErrorCode.INVALID_REQUEST)
    if transactional_id:
        try:
            answer = await services.transactions.ask(
                transactional_id,
                lambda machine, ticket, now_ms: machine.describe(ticket, now_ms, transactional_id=transactional_id),
            )
        except CoordinatorError as refused:
            answer = Description(refused.error)
    transaction = answer.transaction
    return DescribeTransactionsResponseTransactionState(
        error_code=answer.error,
        transactional_id=transactional_id,
        transaction_state="" if transaction is None else transaction.state.wire_name,
        transaction_timeout_ms=0 if transaction is None else transaction.timeout_ms,
        transaction_start_time_ms=0 if transaction is None else transaction.start_ms,
        producer_id=0 if transaction is None else transaction.producer_id,
        producer_epoch=0 if transaction is None else transaction.producer_epoch,
        topics=_topics_of(answer.partitions),
    )


def _topics_of(partitions: tuple[TopicPartitions, ...]) -> list[TopicData]:
    return [TopicData(topic=entry.topic, partitions=list(entry.partitions)) for entry in partitions]


@handles(ListTransactionsRequest, ListTransactionsResponse, versions=range(0, 3))
async def list_transactions(
    services: InspectionServices, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """All ids that pass every filter given. v1 by how long a transaction is open; v2 by a pattern for the whole id.

    Patterns are matched in time that grows with the text only, as RE2 does (`broker.api.linear_pattern` says what
    of RE2 is not understood). COORDINATOR_LOAD_IN_PROGRESS while any shard loads. The loop breathes between two shards.
    """
    try:
        pattern = _compiled(request.transactional_id_pattern)
    except BadPattern:
        return _listed(error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    now_ms = services.environment.wall_ms()

    def wanted(transactional_id: str, transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not states or transaction.state.wire_name in states)
            and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
            and (pattern is None or pattern.matches(transactional_id))
        )

    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in KNOWN_STATE_NAMES]
    found: list[ListTransactionsResponseTransactionState] = []
    try:
        for index in services.transactions.indexes():
            listed = await services.transactions.ask_partition(
                index, lambda machine, ticket, at_ms: machine.list_transactions(ticket, at_ms, wanted=wanted)
            )
            found.extend(_listing(transactional_id, transaction) for transactional_id, transaction in listed)
            await asyncio.sleep(0)
    except CoordinatorError as refused:
        return _listed(error=refused.error, unknown=unknown)
    return _listed(found=found, unknown=unknown)


def _compiled(text: str | None) -> Pattern | None:
    """None where every id matches. Raises `BadPattern`."""
    return Pattern(text) if text else None


def _listing(transactional_id: str, transaction: Transaction) -> ListTransactionsResponseTransactionState:
    return ListTransactionsResponseTransactionState(
        transactional_id=transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.wire_name,
    )


def _listed(
    *,
    found: list[ListTransactionsResponseTransactionState] | None = None,
    unknown: list[str] | None = None,
    error: ErrorCode = ErrorCode.NONE,
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=error, unknown_state_filters=unknown or [], transaction_states=found or []
    )
