"""What stands between a transactional write and the log: is the partition part of the writer's open transaction?

Produce calls, once per request, before it appends anything:

    admitted = await admit_produce(services, transactional_id, version, batches)
        batches:  list[ProduceBatch], one per partition that holds a *transactional* batch
        admitted: list[Admission], in the same order; `error` NONE or what to answer for this partition;
                  `guard` and `verification` are for `Partition.append`

    There is no await between the return of `admit_produce` and the appends of the same handler, and the guard makes
    sure that nothing that slipped in before is missed (KAFKA-14884).

TxnOffsetCommit calls, before it asks the group shard (authorisation first, the group's own checks later, KAFKA-15784):

    error = await admit_offset_commit(services, transactional_id, producer_id, producer_epoch, group_id, version)
        NONE, or the error of every partition of the request (90 has become 47, 120 below v4 48).
        Ask the group shard right after it, without awaiting anything in between: then nothing can slip in.

Both verify (Produce below 12, TxnOffsetCommit below 5) or add (KIP-890 part 2) and hold the request for at most
`broker.coordination.transactions.HOLD_MS` while the previous transaction of the same id completes in this node.
Where another node has the coordinator, it is asked (`across_nodes.peer_gate`), for as long.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from broker.config.broker_config import BrokerConfig
from broker.coordination.across_nodes.peer_gate import PeerGate
from broker.coordination.coordinators import CoordinatorError, Shards
from broker.coordination.topics import TopicDirectory
from broker.coordination.transactions import HOLD_MS, TransactionShards
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from broker.partitions.verification import ALREADY_VERIFIED, Guard
from broker.process.environment import Environment
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import (
    NO_TOPIC_ID,
    PartitionLookup,
    PartitionsByTopic,
    TopicPartitions,
    TransactionState,
    contains,
)
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.records.batch import BatchHeader, read_header

PRODUCE_ADDS_FROM: Final = 12
PRODUCE_KNOWS_ABORTABLE_FROM = 11
OFFSET_COMMIT_ADDS_FROM = 5
OFFSET_COMMIT_KNOWS_ABORTABLE_FROM = 4
VERIFICATION = "transaction.partition.verification.enable"

FEW: Final = 4
"""Partitions that are looked for one by one."""
_NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""A producer knows no coordinator errors: it gets NOT_ENOUGH_REPLICAS, which it retries."""


class GateServices(Protocol):
    """What the gate uses: the settings, the topics, and both coordinators."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def topics(self) -> TopicDirectory: ...

    @property
    def transactions(self) -> TransactionShards: ...

    @property
    def groups(self) -> Shards[GroupCoordinator]: ...

    @property
    def peer_gate(self) -> PeerGate | None:
        """None where all coordinators are in this node."""


class ProduceBatch:
    """The records of one partition in a Produce. Transactional ones matter here; others pass. `header` is that of the
    records, where it was read already."""

    __slots__ = ("header", "partition", "records")

    def __init__(self, partition: Partition, records: memoryview, header: BatchHeader | None = None) -> None:
        self.partition = partition
        self.records = records
        self.header = header


class Admission:
    """What became of one `ProduceBatch`. `guard` and `verification` are for `Partition.append`."""

    __slots__ = ("error", "guard", "verification")

    def __init__(self, error: ErrorCode = ErrorCode.NONE, *, verification: bool = True) -> None:
        self.error = error
        self.guard: Guard | None = None
        self.verification = verification


def admitted_at_once(
    services: GateServices, transactional_id: str | None, version: int, batches: Sequence[ProduceBatch]
) -> bool:
    """Whether all batches are known to belong to the open transaction, without asking anybody: the shard is here, and
    all it says is durable. An append in the same turn of the loop needs no guard, for nothing can slip in between. Of
    several nodes another may have the shard by now: that is asked with what it says."""
    if transactional_id is None or version >= PRODUCE_ADDS_FROM or services.peer_gate is not None:
        return False
    shard = services.transactions.shard_of(transactional_id)
    transaction = None if shard is None or not shard.is_settled else shard.machine.transactions.get(transactional_id)
    if transaction is None or transaction.state is not TransactionState.ONGOING:
        return False
    lookup = PartitionLookup(transaction.partitions) if len(batches) > FEW else None
    for batch in batches:
        header, partition = batch.header or read_header(batch.records), batch.partition
        if header.producer_id != transaction.producer_id or header.producer_epoch != transaction.producer_epoch:
            return False
        if lookup is not None:
            inside = lookup.contains(partition.topic, partition.topic_id, partition.index)
        else:
            inside = contains(transaction.partitions, partition.topic, partition.topic_id, partition.index)
        if not inside:
            return False
    return True


async def admit_produce(
    services: GateServices, transactional_id: str | None, version: int, batches: Sequence[ProduceBatch]
) -> list[Admission]:
    """See the head of this file. Returns without waiting where every transaction is under way already."""
    admissions = [Admission() for _ in batches]
    if transactional_id is None:
        return admissions
    adds = version >= PRODUCE_ADDS_FROM
    if not adds and not services.config.get_bool(VERIFICATION):
        for admission in admissions:
            admission.verification = False
        return admissions
    time_slice = services.environment.time_slice()
    by_producer: dict[Producer, list[tuple[Admission, Partition]]] = {}
    for admission, batch in zip(admissions, batches, strict=True):
        producer = _begin(admission, batch, supports_epoch_bump=adds)
        if producer is not None:
            by_producer.setdefault(producer, []).append((admission, batch.partition))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    for producer, waiting in by_producer.items():
        partitions = [partition for _, partition in waiting]
        results = await _ask(services, transactional_id, producer, partitions, adds=adds)
        for (admission, _), error in zip(waiting, results, strict=True):
            admission.error = _for_produce(error, version)
    return admissions


def _begin(admission: Admission, batch: ProduceBatch, *, supports_epoch_bump: bool) -> Producer | None:
    """Take a guard; the producer to ask about, or None where there is nothing to ask."""
    header: BatchHeader | None
    try:
        header = batch.partition.needs_verification(batch.records)
        if header is None:
            return None
        admission.guard = batch.partition.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, supports_epoch_bump
        )
    except AppendError as refused:
        admission.error = refused.code
        return None
    if admission.guard is ALREADY_VERIFIED:
        return None
    return Producer(header.producer_id, header.producer_epoch)


async def _ask(
    services: GateServices, transactional_id: str, producer: Producer, partitions: Sequence[Partition], *, adds: bool
) -> list[ErrorCode]:
    wanted = await _by_topic(services, partitions)
    try:
        if (leader := _elsewhere(services, transactional_id)) is not None:
            assert services.peer_gate is not None
            answers = await services.peer_gate.ask(leader, transactional_id, producer, wanted, adds=adds)
            return [answers.get((one.topic, one.index), ErrorCode.UNKNOWN_SERVER_ERROR) for one in partitions]
        if adds:
            added = await add_to_transaction(services, transactional_id, producer, wanted, client_version=2)
            return [added] * len(partitions)
        verified = await services.transactions.ask(
            transactional_id,
            lambda machine, ticket, now_ms: machine.verify_partitions(
                ticket, now_ms, transactional_id=transactional_id, claimed=producer, partitions=wanted
            ),
        )
    except CoordinatorError as refused:
        return [refused.error] * len(partitions)
    return [verified[partition.topic, partition.topic_id, partition.index] for partition in partitions]


def _elsewhere(services: GateServices, transactional_id: str) -> int | None:
    """The node that has the coordinator of this id, -1 where none has it now; None where it is this one."""
    index = services.transactions.partition_for(transactional_id)
    if services.peer_gate is None or services.transactions.led(index):
        return None
    return services.topics.leader(TRANSACTION_STATE, index)[0]


async def _by_topic(services: GateServices, partitions: Sequence[Partition]) -> list[TopicPartitions]:
    time_slice, found = services.environment.time_slice(), PartitionsByTopic()
    for partition in partitions:
        found.add(partition.topic, partition.topic_id, partition.index)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return await time_slice.all(found)


async def add_to_transaction(
    services: GateServices,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartitions],
    *,
    client_version: int,
    hold_ms: int = HOLD_MS,
) -> ErrorCode:
    """Put partitions into the open transaction, or begin one with them; held while the last one completes here.
    Raises `CoordinatorError`."""
    return await services.transactions.ask_held(
        transactional_id,
        lambda machine, ticket, now_ms: machine.add_partitions(
            ticket,
            now_ms,
            transactional_id=transactional_id,
            claimed=producer,
            partitions=partitions,
            client_version=client_version,
        ),
        hold_ms,
    )


def _for_produce(error: ErrorCode, version: int) -> ErrorCode:
    """The error a producer gets. Never 90 (the client could not abort any more), nor a coordinator's codes."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < PRODUCE_KNOWS_ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if error in _NOT_NOW or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_FROM):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


async def admit_offset_commit(
    services: GateServices, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str, version: int
) -> ErrorCode:
    """See the head of this file.

    No guard is needed: what was true is checked once more when the wait is over, and a caller that asks the group shard
    before it awaits anything else leaves no gap (KAFKA-15449).
    """
    adds = version >= OFFSET_COMMIT_ADDS_FROM
    if not adds and not services.config.get_bool(VERIFICATION):
        return ErrorCode.NONE
    producer = Producer(producer_id, producer_epoch)
    index = services.groups.partition_for(group_id)
    wanted = offsets_partition(services, index)
    try:
        await services.groups.wait_until_ready(index)  # so that asking the group will not wait for it later
        if _is_fenced(services, producer, index):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (leader := _elsewhere(services, transactional_id)) is not None:
            error = await _admit_elsewhere(services, leader, transactional_id, producer, index, adds=adds)
            return _for_offset_commit(error, version)
        if adds:
            error = await add_to_transaction(services, transactional_id, producer, wanted, client_version=2)
        else:
            verified = await services.transactions.ask(
                transactional_id,
                lambda machine, ticket, now_ms: machine.verify_partitions(
                    ticket, now_ms, transactional_id=transactional_id, claimed=producer, partitions=wanted
                ),
            )
            (error,) = verified.values()
    except CoordinatorError as refused:
        error = refused.error
    if error is ErrorCode.NONE and services.transactions.whose(transactional_id) is None:
        error = ErrorCode.NOT_COORDINATOR  # It was given to another node in that moment.
    if error is ErrorCode.NONE and not _still_open(services, transactional_id, producer, index):
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    return _for_offset_commit(error, version)


async def _admit_elsewhere(
    services: GateServices, leader: int, transactional_id: str, producer: Producer, index: int, *, adds: bool
) -> ErrorCode:
    """As a Produce asks: a guard is left, and what takes it away meanwhile has ended the transaction, or begun it here.
    What a partition that was closed and opened again has seen, the guard of the one before does not know. Raises
    `CoordinatorError`."""
    partition = services.topics.partition(CONSUMER_OFFSETS, index)
    if services.peer_gate is None or partition is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    producer_id, epoch = producer.producer_id, producer.producer_epoch
    try:
        guard = partition.begin_verification(producer_id, epoch, 0, adds)
    except AppendError as refused:
        return refused.code
    if guard is ALREADY_VERIFIED:
        return ErrorCode.NONE
    wanted = offsets_partition(services, index)
    answers = await services.peer_gate.ask(leader, transactional_id, producer, wanted, adds=adds)
    error = answers.get((CONSUMER_OFFSETS, index), ErrorCode.UNKNOWN_SERVER_ERROR)
    if services.topics.partition(CONSUMER_OFFSETS, index) is not partition:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.NONE and not (
        partition.verifications.is_current(producer_id, guard)
        or partition.derived.producers.has_open_transaction(producer_id, epoch)
    ):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return error


def offsets_partition(services: GateServices, index: int) -> list[TopicPartitions]:
    """A partition of `__consumer_offsets` as a transaction keeps it."""
    topic = services.topics.by_name(CONSUMER_OFFSETS)
    return [TopicPartitions(CONSUMER_OFFSETS, NO_TOPIC_ID if topic is None else topic.topic_id, (index,))]


def _is_fenced(services: GateServices, producer: Producer, index: int) -> bool:
    """Whether the partition has seen a later epoch, as Produce looks, too: a fenced identity is answered as fenced,
    not as unknown."""
    partition = services.topics.partition(CONSUMER_OFFSETS, index)
    return partition is not None and producer.producer_epoch < partition.derived.producers.epoch(producer.producer_id)


def _still_open(services: GateServices, transactional_id: str, producer: Producer, index: int) -> bool:
    transaction = services.transactions.transaction_of(transactional_id)
    return (
        transaction is not None
        and transaction.state is TransactionState.ONGOING
        and (transaction.producer_id, transaction.producer_epoch) == (producer.producer_id, producer.producer_epoch)
        and contains(transaction.partitions, CONSUMER_OFFSETS, NO_TOPIC_ID, index)
    )


def _for_offset_commit(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < OFFSET_COMMIT_KNOWS_ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error
