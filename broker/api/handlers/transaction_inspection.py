"""DescribeProducers (61), DescribeTransactions (65), ListTransactions (66): looking for what is stuck (KIP-664,
KIP-994, KIP-1152).

A partition has up to a million producers, a shard any number of ids, and a pattern takes its time: all of it in slices.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, cast

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.linear_pattern import BadPattern, Pattern
from broker.api.permissions.of_topics import DESCRIBE_PRODUCERS
from broker.api.permissions.of_transactions import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from broker.api.services import WithEnvironment, WithTopics, WithTransactions
from broker.coordination.coordinators import CoordinatorError
from broker.partitions.partition import Partition
from broker.process.time_slice import TimeSlice
from coordinator.cluster.topic_rules import Refused, check_name
from coordinator.transactions.answers import Description
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
from storage.producers.producer_entry import ProducerEntry


class InspectionServices(WithEnvironment, WithTopics, WithTransactions, Protocol):
    """What these handlers use of the node."""


@handles(DescribeProducersRequest, DescribeProducersResponse, versions=range(0, 1), guard=DESCRIBE_PRODUCERS)
async def describe_producers(
    services: InspectionServices, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """What each partition knows of its producers; `current_txn_start_offset` is set in an open transaction. A partition
    that is named twice is described once."""
    directory = services.topics
    await directory.to_open.wait_a_moment(
        (directory.by_name(topic.name), index) for topic in request.topics for index in topic.partition_indexes
    )
    time_slice = services.environment.time_slice()
    topics = []
    described: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            if (topic.name, index) in described:
                continue
            described.add((topic.name, index))
            partition = directory.partition(topic.name, index)
            if partition is None:
                known = directory.by_name(topic.name) is not None
                partitions.append(_nowhere(topic.name, index, topic_exists=known))
            elif partition.refusal:
                error = partition.refusal
                partitions.append(PartitionResponse(partition_index=index, error_code=error, active_producers=[]))
            else:
                producers = await _producers_of(partition, time_slice)
                partitions.append(PartitionResponse(partition_index=index, active_producers=producers))
            if time_slice.spent():
                await time_slice.wait_for_turn()
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
        await time_slice.give_way()
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


class _Described:
    """Producers that are described one at a time, when they are written. A million descriptions at once would have the
    collector look at all of them, a quarter of a second in which nothing else runs, and that again and again."""

    def __init__(self) -> None:
        self._entries: list[int | bytes] = []
        """An id, then what is known of it: nothing that the collector looks at."""

    def add(self, producer_id: int, packed: bytes) -> None:
        self._entries += (producer_id, packed)

    def __len__(self) -> int:
        return len(self._entries) // 2

    def __iter__(self) -> Iterator[ProducerState]:
        entries = iter(self._entries)
        return map(_described, cast(Iterator[int], entries), cast(Iterator[bytes], entries))


async def _producers_of(partition: Partition, time_slice: TimeSlice) -> list[ProducerState]:
    """Those that the partition had at the beginning, each as it is when its turn comes."""
    described = _Described()
    entries = partition.derived.producers
    for producer_id in entries.ids():
        packed = entries.packed_entries().get(producer_id)
        if packed is not None:
            described.add(producer_id, packed)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return cast(list[ProducerState], described)  # of which only the length is asked, and each once


def _described(producer_id: int, packed: bytes) -> ProducerState:
    entry = ProducerEntry.unpack(packed)
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


@handles(DescribeTransactionsRequest, DescribeTransactionsResponse, versions=range(0, 1), guard=DESCRIBE_TRANSACTIONS)
async def describe_transactions(
    services: InspectionServices, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """What the coordinator knows of given ids, each once; in a PREPARE state, the partitions that still lack their
    marker."""
    time_slice = services.environment.time_slice()
    described: list[DescribeTransactionsResponseTransactionState] = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        described.append(await _describe(services, transactional_id))
        if time_slice.spent():
            await time_slice.wait_for_turn()
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
    """Each topic once: where records do not name ids (transaction.version 0), what was added before a restart and what
    was added after it are two entries."""
    topics: dict[str, set[int]] = {}
    for entry in partitions:
        topics.setdefault(entry.topic, set()).update(entry.partitions)
    return [TopicData(topic=topic, partitions=sorted(found)) for topic, found in topics.items()]


@handles(ListTransactionsRequest, ListTransactionsResponse, versions=range(0, 3), guard=LIST_TRANSACTIONS)
async def list_transactions(
    services: InspectionServices, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """All ids that pass every filter given. v1 by how long a transaction is open; v2 by a pattern for the whole id.

    Patterns are matched in time that grows with the text only, as RE2 does (`broker.api.linear_pattern` says what
    of RE2 is not understood). COORDINATOR_LOAD_IN_PROGRESS while any shard loads. Ids in a damaged log are left out, as
    in Kafka.
    """
    time_slice = services.environment.time_slice()
    states: set[str] = set()
    others: dict[str, None] = {}
    for name in request.state_filters:
        if name in KNOWN_STATE_NAMES:
            states.add(name)
        else:
            others[name] = None
        if time_slice.spent():
            await time_slice.wait_for_turn()
    unknown = list(others)
    try:
        pattern = _compiled(request.transactional_id_pattern)
        wanted = _filter_of(request, states, services.environment.wall_ms())
        listed = await _in_all_shards(services, wanted, pattern)
    except BadPattern:
        return _listed(error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    except CoordinatorError as refused:
        return _listed(error=refused.error, unknown=unknown)
    return _listed(found=listed, unknown=unknown)


def _filter_of(request: ListTransactionsRequest, states: set[str], now_ms: int) -> Callable[[str, Transaction], bool]:
    """All filters but the pattern; `states` are those of its filter that there are."""
    producer_ids = set(request.producer_id_filters)

    def wanted(transactional_id: str, transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not request.state_filters or transaction.state.wire_name in states)
            and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
        )

    return wanted


async def _in_all_shards(
    services: InspectionServices, wanted: Callable[[str, Transaction], bool], pattern: Pattern | None
) -> list[ListTransactionsResponseTransactionState]:
    """What the shards have. Raises `CoordinatorError`, and `BadPattern` for one that is too much work."""
    time_slice = services.environment.time_slice()
    listed: list[ListTransactionsResponseTransactionState] = []
    for index in services.transactions.indexes():
        try:
            transactions = await services.transactions.ask_partition(
                index, lambda machine, ticket, at_ms: machine.list_transactions(ticket, at_ms, wanted=wanted)
            )
        except CoordinatorError:
            if services.transactions.is_offline(index):
                continue
            raise
        for transactional_id, transaction in transactions:
            if pattern is None or await _matches(pattern, transactional_id, time_slice):
                listed.append(_listing(transactional_id, transaction))
            if time_slice.spent():
                await time_slice.wait_for_turn()
    return listed


async def _matches(pattern: Pattern, text: str, time_slice: TimeSlice) -> bool:
    matching = pattern.matching(text)
    while True:
        try:
            next(matching)
        except StopIteration as finished:
            return bool(finished.value)
        if time_slice.spent():
            await time_slice.wait_for_turn()


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
