"""DescribeProducers, DescribeTransactions, ListTransactions: looking for what is stuck (KIP-664, KIP-994, KIP-1152)."""

import asyncio
import re
from typing import TYPE_CHECKING

from broker.catalogue import handles
from broker.context import RequestContext
from broker.coordinators import CoordinatorError
from broker.partition.partition import Partition
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

if TYPE_CHECKING:
    from broker.node import Node

NOT_IN_RE2 = re.compile(r"\\[1-9]|\(\?(?:[=!>]|<[=!]|P=|\()|[*+?}]\+")
"""Back references, looking around, atomic groups, conditions, possessive repeats: RE2 has none of them."""


@handles(DescribeProducersRequest, DescribeProducersResponse, versions=range(0, 1))
def describe_producers(
    node: "Node", context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """What each partition knows of its producers; `current_txn_start_offset` tells an open transaction."""
    topics = []
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            partition = node.topics.partition(topic.name, index)
            if partition is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                partitions.append(PartitionResponse(partition_index=index, error_code=unknown, active_producers=[]))
            else:
                partitions.append(PartitionResponse(partition_index=index, active_producers=_producers_of(partition)))
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


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
    node: "Node", context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """What the coordinator knows of given ids; in a PREPARE state, the partitions that still lack their marker."""
    described = [await _describe(node, transactional_id) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=described)


async def _describe(node: "Node", transactional_id: str) -> DescribeTransactionsResponseTransactionState:
    answer = Description(ErrorCode.INVALID_REQUEST)
    if transactional_id:
        try:
            answer = await node.transactions.ask(
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
    node: "Node", context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """All ids that pass every filter given. v1 by how long a transaction is open; v2 by a pattern for the whole id.

    Patterns are Python's, less what RE2 does not know; COORDINATOR_LOAD_IN_PROGRESS while any shard is loading.
    """
    try:
        pattern = _compiled(request.transactional_id_pattern)
    except re.error:
        return _listed(error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    now_ms = node.environment.wall_ms()

    def wanted(transactional_id: str, transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not states or transaction.state.wire_name in states)
            and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
            and (pattern is None or pattern.fullmatch(transactional_id) is not None)
        )

    unknown = [name for name in request.state_filters if name not in KNOWN_STATE_NAMES]
    found: list[ListTransactionsResponseTransactionState] = []
    indexes = [index for index, _ in node.transactions.indexed()]
    asked = [
        node.transactions.ask_partition(
            index, lambda machine, ticket, at_ms: machine.list_transactions(ticket, at_ms, wanted=wanted)
        )
        for index in indexes
    ]
    try:
        for listed in await asyncio.gather(*asked):
            found.extend(_listing(transactional_id, transaction) for transactional_id, transaction in listed)
    except CoordinatorError as refused:
        return _listed(error=refused.error, unknown=unknown)
    return _listed(found=found, unknown=unknown)


def _compiled(text: str | None) -> "re.Pattern[str] | None":
    """None where every id matches. Raises `re.error`."""
    if not text:
        return None
    if NOT_IN_RE2.search(text):
        raise re.error("not a regular expression RE2 knows", text)
    return re.compile(text, re.ASCII)


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
