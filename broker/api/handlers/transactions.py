"""InitProducerId (22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26): what a transactional producer says
to its coordinator.

Old versions know no PRODUCER_FENCED and get INVALID_PRODUCER_EPOCH instead (KIP-588). The APIs of leaders and
operators are in `transaction_markers` and `transaction_inspection`.

What we do not do: two-phase commit by InitProducerId 6 (KIP-939, unstable in Kafka, too).
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_transactions import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.promises import when_promises_are_durable
from broker.coordination.transaction_gate import GateServices, add_to_transaction, offsets_partition
from broker.coordination.transactions import HOLD_MS, HOLD_OF_A_NODE_MS
from broker.partitions.committing import Committing
from coordinator.ports import ProducerIds
from coordinator.transactions.answers import Identity
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import NO_EPOCH, NO_PRODUCER_ID, NO_TOPIC_ID, PartitionsByTopic, TopicPartitions
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

FIRST_WITH_FENCED = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""The first version of each API that may carry PRODUCER_FENCED."""
BROKER_FORM: Final = 4
"""From here on AddPartitionsToTxn is what brokers say to each other: many transactions, add or verify (KIP-890)."""
AT_ONCE: Final = 64
"""How many transactions of a request are worked on at a time: their records share a commit."""
ENDS_WITH_BUMP: Final = 5
"""From here on EndTxn bumps the epoch and returns the new one."""

Results = dict[tuple[str, int], ErrorCode]


class TransactionServices(GateServices, Protocol):
    """What these handlers use of the node."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def group_commit(self) -> Committing: ...


def _known_to(error: ErrorCode, request: type, version: int) -> ErrorCode:
    fenced = error is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if fenced and version < FIRST_WITH_FENCED[request] else error


@handles(InitProducerIdRequest, InitProducerIdResponse, versions=range(0, 6), guard=INIT_PRODUCER_ID)
async def init_producer_id(
    services: TransactionServices, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """A producer id; with a transactional id, the next epoch of it, which fences the producer with the one before.

    Answered when the record is durable. Over an open transaction, that one is aborted first; the request is held for
    it for a moment, then answered CONCURRENT_TRANSACTIONS. v2 flexible; v3 the identity the client believes it has, to
    go on after an error (KIP-360); v4 PRODUCER_FENCED; v5 TRANSACTION_ABORTABLE is understood.
    """
    error = _init_error(services, request)
    if error is not ErrorCode.NONE:
        return InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH)
    transactional_id = request.transactional_id
    if transactional_id is None:
        # A producer without transactions bumps its epoch by itself; what it sends beside the id is ignored.
        producer_id = services.producer_ids.take()
        if producer_id is None:
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=NO_EPOCH)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    known = request.producer_id != NO_PRODUCER_ID
    expected = Producer(request.producer_id, request.producer_epoch) if known else None
    try:
        answer = await services.transactions.ask_held(
            transactional_id,
            lambda machine, ticket, now_ms: machine.init_producer_id(
                ticket,
                now_ms,
                transactional_id=transactional_id,
                timeout_ms=request.transaction_timeout_ms,
                expected=expected,
            ),
        )
    except CoordinatorError as refused:
        answer = Identity(refused.error)
    return InitProducerIdResponse(
        error_code=_known_to(answer.error, InitProducerIdRequest, context.api_version),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


def _init_error(services: TransactionServices, request: InitProducerIdRequest) -> ErrorCode:
    """What is wrong with the request itself, in Kafka's order."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= services.config.get_int("transaction.max.timeout.ms"):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


@handles(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, versions=range(0, 6), guard=ADD_PARTITIONS_TO_TXN)
async def add_partitions_to_txn(
    services: TransactionServices, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Put partitions into a transaction before they are written to. All of them or none (KAFKA-5322).

    Answered when the record is durable; held while the transaction before completes here. v2 PRODUCER_FENCED; v3
    flexible; v4 the form for brokers: several transactions, each added or verified; v5 TRANSACTION_ABORTABLE.
    """
    if context.api_version < BROKER_FORM:
        one = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results = await _add_or_verify(services, one, context.api_version)
        topics = await _by_topic(services, results, context.api_version)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    by_transaction: list[AddPartitionsToTxnResult] = []
    time_slice = services.environment.time_slice()
    for first in range(0, len(request.transactions), AT_ONCE):
        some = request.transactions[first : first + AT_ONCE]
        by_transaction += await asyncio.gather(*(_of_one(services, one, context.api_version) for one in some))
        await time_slice.give_way()
    return AddPartitionsToTxnResponse(results_by_transaction=by_transaction)


async def _of_one(
    services: TransactionServices, transaction: AddPartitionsToTxnTransaction, version: int
) -> AddPartitionsToTxnResult:
    results = await _add_or_verify(services, transaction, version)
    topics = await _by_topic(services, results, version)
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)


async def _add_or_verify(
    services: TransactionServices, transaction: AddPartitionsToTxnTransaction, version: int
) -> Results:
    results, wanted = await _look_up(services, transaction.topics, version)
    if any(results.values()):
        return {key: error or ErrorCode.OPERATION_NOT_ATTEMPTED for key, error in results.items()}
    transactional_id = transaction.transactional_id
    if not transactional_id:
        return dict.fromkeys(results, ErrorCode.INVALID_REQUEST)
    claimed = Producer(transaction.producer_id, transaction.producer_epoch)
    try:
        if not transaction.verify_only:
            client_version, hold_ms = (2, HOLD_OF_A_NODE_MS) if version >= BROKER_FORM else (0, HOLD_MS)
            error = await add_to_transaction(
                services, transactional_id, claimed, wanted, client_version=client_version, hold_ms=hold_ms
            )
            return dict.fromkeys(results, error)
        verified = await services.transactions.ask(
            transactional_id,
            lambda machine, ticket, now_ms: machine.verify_partitions(
                ticket, now_ms, transactional_id=transactional_id, claimed=claimed, partitions=wanted
            ),
        )
    except CoordinatorError as refused:
        return dict.fromkeys(results, refused.error)
    return {(topic, index): error for (topic, _topic_id, index), error in verified.items()}


async def _look_up(
    services: TransactionServices, topics: Sequence[AddPartitionsToTxnTopic], version: int
) -> tuple[Results, list[TopicPartitions]]:
    """Every partition with what keeps it out of a transaction, and those that nothing keeps out, each once, with their
    topics' ids. No client may name our own topics. One that is deleted meanwhile has an id that is gone, and gets no
    marker."""
    time_slice = services.environment.time_slice()
    results: Results = {}
    fit = PartitionsByTopic()
    for wanted in topics:
        topic = services.topics.by_name(wanted.name)
        # Of two nodes one may know already that a topic was made anew. No marker would go to the new one.
        is_another = topic is not None and wanted.topic_id not in (NO_TOPIC_ID, topic.topic_id)
        for index in wanted.partitions:
            if topic is not None and topic.internal and version < BROKER_FORM:
                results[wanted.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None or not 0 <= index < len(topic.partitions) or is_another:
                results[wanted.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                results[wanted.name, index] = ErrorCode.NONE
                fit.add(wanted.name, topic.topic_id, index)
            if time_slice.spent():
                await time_slice.wait_for_turn()
        await time_slice.give_way()
    return results, await time_slice.all(fit)


async def _by_topic(
    services: TransactionServices, results: Results, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    time_slice = services.environment.time_slice()
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), error in results.items():
        code = _known_to(error, AddPartitionsToTxnRequest, version)
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics.setdefault(topic, []).append(result)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=some) for name, some in topics.items()]


@handles(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, versions=range(0, 5), guard=ADD_OFFSETS_TO_TXN)
async def add_offsets_to_txn(
    services: TransactionServices, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Put a group's partition of `__consumer_offsets` into a transaction; only clients of the classic protocol ask.

    Answered when the record is durable; held as AddPartitionsToTxn is. v2 PRODUCER_FENCED; v3 flexible; v4
    TRANSACTION_ABORTABLE is understood.
    """
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    claimed = Producer(request.producer_id, request.producer_epoch)
    wanted = offsets_partition(services, services.groups.partition_for(request.group_id))
    try:
        error = await add_to_transaction(services, request.transactional_id, claimed, wanted, client_version=0)
    except CoordinatorError as refused:
        error = refused.error
    return AddOffsetsToTxnResponse(error_code=_known_to(error, AddOffsetsToTxnRequest, context.api_version))


@handles(EndTxnRequest, EndTxnResponse, versions=range(0, 6), guard=END_TXN)
async def end_txn(services: TransactionServices, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort. Answered when the decision is durable; markers follow, and a commit can no longer fail. A commit
    is decided when all that the transaction wrote is durable.

    v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE is understood; v5 every transaction has an epoch of its
    own: the answer carries the identity for the next one (KIP-890).
    """
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    client_version = 2 if context.api_version >= ENDS_WITH_BUMP else 0
    try:
        if request.committed:
            answer = await when_promises_are_durable(
                services, request.transactional_id, lambda: _end(services, request, client_version)
            )
        else:
            answer = await _end(services, request, client_version)
    except CoordinatorError as refused:
        answer = Identity(refused.error)
    return EndTxnResponse(
        error_code=_known_to(answer.error, EndTxnRequest, context.api_version),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


async def _end(services: TransactionServices, request: EndTxnRequest, client_version: int) -> Identity:
    return await services.transactions.ask(
        request.transactional_id,
        lambda machine, ticket, now_ms: machine.end_transaction(
            ticket,
            now_ms,
            transactional_id=request.transactional_id,
            claimed=Producer(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=client_version,
        ),
    )
