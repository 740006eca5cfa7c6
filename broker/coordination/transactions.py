"""The transaction coordinator in this node: its shards, the requests held for them, and what a start has to repair.

`make_transaction_shards` makes them; `reconcile` is called once, when all is loaded.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from broker.config.broker_config import BrokerConfig
from broker.coordination.coordinators import Shards
from broker.coordination.marker_writer import LocalMarkerWriter, write_marker
from broker.coordination.topics import TopicDirectory
from broker.journal.journal import Journal
from broker.journal.noted_transactions import noting
from broker.partitions.partition import Partition
from broker.partitions.topic import largest_batch
from broker.process.environment import Environment
from coordinator.machine import A, Marker, Outcome, Ticket
from coordinator.ports import MarkerWriter, ProducerIds
from coordinator.runtime import Shard, ShardState
from coordinator.transactions.coordinator import TransactionCoordinator
from coordinator.transactions.markers import MarkerDriver
from coordinator.transactions.states import NO_PRODUCER_ID, Transaction, TransactionState, contains
from protocol.errors import ErrorCode
from protocol.internal_topics import TRANSACTION_STATE
from protocol.records.batch import LAST_EPOCH
from storage.producers.producer_entry import NO_OFFSET, ProducerEntry

logger = logging.getLogger("tallystick.transactions")

HOLD_MS: Final = 100
"""The longest a request is held for a completion in this node; after that CONCURRENT_TRANSACTIONS, as Kafka at once."""
HOLD_OF_A_NODE_MS: Final = 20
"""The same of one that holds what many clients of another node wait for, which asks again itself."""


@dataclass(frozen=True, slots=True)
class ConfiguredTransactions:
    """`TransactionSettings` out of the broker's configuration, read each time."""

    config: BrokerConfig
    transaction_version: Callable[[], int]
    batch_limit: Callable[[], int]

    @property
    def expiration_ms(self) -> int:
        return self.config.get_int("transactional.id.expiration.ms")

    @property
    def expiry_scan_ms(self) -> int:
        return self.config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms")

    @property
    def abort_retry_ms(self) -> int:
        return self.config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms")

    @property
    def max_batch_bytes(self) -> int:
        return self.batch_limit()

    @property
    def cluster_version(self) -> int:
        return self.transaction_version()


class TransactionShards(Shards[TransactionCoordinator]):
    """The shards of `__transaction_state`, and the requests that wait for a completion (hold, do not bounce)."""

    def __init__(
        self,
        *,
        partition_count: Callable[[], int],
        make: Callable[[int], TransactionCoordinator],
        environment: Environment,
        load_bytes: Callable[[], int],
        opened: Callable[[int, Shard[TransactionCoordinator]], None],
        exists: Callable[[], bool],
        publish: Callable[[Partition], None],
        led: Callable[[int], bool],
    ) -> None:
        super().__init__(
            topic=TRANSACTION_STATE,
            partition_count=partition_count,
            make=make,
            environment=environment,
            load_bytes=load_bytes,
            opened=opened,
            exists=exists,
            publish=publish,
            led=led,
        )
        self._held: dict[str, list[asyncio.Future[None]]] = {}

    async def ask_held(
        self,
        transactional_id: str,
        operation: Callable[[TransactionCoordinator, Ticket[A], int], Outcome[A]],
        hold_ms: int = HOLD_MS,
    ) -> A:
        """As `ask`; but where the answer is 51 because a transaction completes in this node, wait for that and run
        the operation again, as the client's own retry would. After `hold_ms` the 51 goes out."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + hold_ms / 1000
        while True:
            answer = await self.ask(transactional_id, operation)
            if getattr(answer, "error", answer) is not ErrorCode.CONCURRENT_TRANSACTIONS:
                return answer
            left = deadline - loop.time()
            if left <= 0 or not await self.wait_until_completed(transactional_id, left):
                return answer

    async def wait_until_completed(self, transactional_id: str, timeout: float) -> bool:
        """Until the markers of an id are written and COMPLETE is appended; False if that took longer."""
        shard = self.shard_of(transactional_id)
        if shard is None:
            return False
        if transactional_id not in shard.machine.completions:
            return True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held = self._held.setdefault(transactional_id, [])
        held.append(done)
        try:
            await asyncio.wait_for(done, timeout)
        except TimeoutError:
            return False
        finally:
            if done in held:
                held.remove(done)
            if not held and self._held.get(transactional_id) is held:
                del self._held[transactional_id]
        return True

    def completed(self, transactional_id: str) -> None:
        """A transaction is complete: requests held for it go on, in the order of arrival."""
        for waiting in self._held.pop(transactional_id, ()):
            if not waiting.done():
                waiting.set_result(None)

    def transaction_of(self, transactional_id: str) -> Transaction | None:
        """What is known of an id right now, durable or not; for checks that must not wait."""
        shard = self.shard_of(transactional_id)
        return None if shard is None else shard.machine.transactions.get(transactional_id)

    def whose(self, transactional_id: str) -> set[int] | None:
        """The producer ids that an id has right now, durable or not. None while its log is not there, or loads."""
        shard = self.shard_of(transactional_id)
        if shard is None or shard.state is not ShardState.ACTIVE:
            return None
        transaction = shard.machine.transactions.get(transactional_id)
        return {NO_PRODUCER_ID} if transaction is None else transaction.producer_ids

    def owner_of(self, producer_id: int) -> tuple[str, Transaction] | None:
        """The id in whose open or decided transaction this producer is."""
        found = (shard.machine.ledger.owner_of(producer_id) for shard in self.all())
        return next((owner for owner in found if owner is not None), None)


def make_transaction_shards(
    *,
    config: BrokerConfig,
    environment: Environment,
    topics: TopicDirectory,
    writer: MarkerWriter,
    publish: Callable[[Partition], None],
    producer_ids: ProducerIds,
    transaction_version: Callable[[], int],
    journal: Journal | None = None,
) -> TransactionShards:
    """The shards of `__transaction_state`. `transaction_version` is the finalised level of the feature of that name."""
    settings = ConfiguredTransactions(
        config, transaction_version, lambda: largest_batch(topics.by_name(TRANSACTION_STATE))
    )

    def make(index: int) -> TransactionCoordinator:
        return TransactionCoordinator(producer_ids, settings, lambda: topics.leader(TRANSACTION_STATE, index)[1])

    def opened(index: int, shard: Shard[TransactionCoordinator]) -> None:
        if journal is not None:
            shard.on_decided = noting(journal, shard)
        MarkerDriver(
            shard,
            writer,
            shards.clock,
            shards.timer,
            completed=shards.completed,
            begin_turn=environment.time_slice,
        )

    def partition_count() -> int:
        """What the topic has, once it is there: it decides which shard knows an id."""
        topic = topics.by_name(TRANSACTION_STATE)
        return config.get_int("transaction.state.log.num.partitions") if topic is None else len(topic.partitions)

    shards = TransactionShards(
        partition_count=partition_count,
        make=make,
        environment=environment,
        load_bytes=lambda: config.get_int("transaction.state.log.load.buffer.size"),
        opened=opened,
        exists=lambda: topics.by_name(TRANSACTION_STATE) is not None,
        publish=publish,
        led=lambda index: topics.leads(TRANSACTION_STATE, index),
    )
    return shards


# -- start-up ----------------------------------------------------------------------------------------------------


class ReconcileServices(Protocol):
    @property
    def epoch(self) -> int: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def topics(self) -> TopicDirectory: ...

    @property
    def transactions(self) -> TransactionShards: ...

    @property
    def coordinator_markers(self) -> LocalMarkerWriter: ...


async def reconcile(services: ReconcileServices) -> int:
    """End every open transaction that no transactional id answers for; returns how many there were.

    Nobody would ever end it: it would hold the last stable offset for good. If the order of syncs is kept there are
    none after any crash (I50), so each is logged loudly. Clients may be at work meanwhile:
    an id answers for a partition before anything is written to it, so what looks like an orphan is looked up afresh;
    and a topic that is deleted meanwhile has none. Where the record of an id cannot be read, nobody knows whose it is
    nor how it was decided: it is left. Nothing is done as soon as other nodes have coordinators, too.
    """
    # Without all shards, transactions that are decided would pass for orphans.
    await services.transactions.wait_until_loaded()
    if not services.transactions.are_all_here:
        return 0
    time_slice = services.environment.time_slice()
    owners: dict[int, Transaction] = {}
    for shard in services.transactions.all():
        for transaction in list(shard.machine.transactions.values()):
            owners[transaction.producer_id] = transaction
            await time_slice.give_way()
    unreadable = sum(len(shard.machine.ledger.unreadable) for shard in services.transactions.all())
    orphans = 0
    for topic in services.topics.all():
        for partition in topic.partitions.opened():
            producers = partition.derived.producers
            for producer_id in producers.open_transactions():
                entry = producers.entry(producer_id)
                if entry is None or entry.transaction_first_offset == NO_OFFSET:
                    continue
                if _is_answered_for(owners.get(producer_id), entry, partition):
                    continue
                await services.transactions.wait_until_loaded()
                found = services.transactions.owner_of(producer_id)
                if partition.discarded or not services.transactions.are_all_here:
                    break
                if producers.entry(producer_id) == entry and not _is_answered_for(found and found[1], entry, partition):
                    if unreadable:
                        _leave_open(partition, producer_id, entry)
                        continue
                    orphans += 1
                    await _end_orphan(services, partition, producer_id, entry)
            await time_slice.give_way()
    return orphans


def _is_answered_for(owner: Transaction | None, entry: ProducerEntry, partition: Partition) -> bool:
    if owner is None or not (owner.state is TransactionState.ONGOING or owner.state.preparing):
        return False
    if owner.state is TransactionState.ONGOING and owner.producer_epoch != entry.epoch:
        return False
    # With the page cache, a power cut may have taken the next transaction from the coordinator's log and left its data.
    # The marker of the decision before it does not end it (KIP-1228).
    same_is_later = owner.client_version >= 2 and entry.epoch != LAST_EPOCH
    if owner.state.preparing and entry.epoch + same_is_later > owner.producer_epoch:
        return False
    return contains(owner.partitions, partition.topic, partition.topic_id, partition.index)


def _leave_open(partition: Partition, producer_id: int, entry: ProducerEntry) -> None:
    logger.error(
        "%s-%d: the transaction of producer %d, epoch %d, open since offset %d, may belong to a transactional id whose "
        "record cannot be read, and may be decided; it stays open",
        partition.topic,
        partition.index,
        producer_id,
        entry.epoch,
        entry.transaction_first_offset,
    )


async def _end_orphan(
    services: ReconcileServices, partition: Partition, producer_id: int, entry: ProducerEntry
) -> None:
    name = f"{partition.topic}-{partition.index}"
    logger.error(
        "%s: the transaction of producer %d, epoch %d, open since offset %d, belongs to nobody; it is aborted",
        name,
        producer_id,
        entry.epoch,
        entry.transaction_first_offset,
    )
    marker = Marker(
        producer_id=producer_id,
        producer_epoch=min(entry.epoch + 1, LAST_EPOCH),
        commit=False,
        coordinator_epoch=services.epoch,
        transaction_version=2,
    )
    error = await write_marker(services.coordinator_markers, partition.topic, partition.index, marker)
    if error is not ErrorCode.NONE:
        logger.error("%s: the marker was refused with %s; the transaction stays open", name, error.name)
