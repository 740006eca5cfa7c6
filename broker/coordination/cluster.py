"""`__cluster_metadata-0` as this node runs it: the shard, questions that are awaited, the epoch of this start.

The log is always synced, whatever the durability of topics: ids and epochs that were handed out must never come again.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from broker.config.topic_config import TopicConfig
from broker.coordination.coordinators import CoordinatorError, FutureTicket
from broker.partitions.partition import Partition
from broker.partitions.shard_log import PartitionShardLog
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.steady_clock import LoopTimer, SteadyClock
from coordinator.cluster.coordinator import ClusterCoordinator, Registration
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.records import TopicRecord
from coordinator.cluster.topic_rules import METADATA_TOPIC_ID
from coordinator.loading import STEP_RECORDS, entries_of
from coordinator.machine import A, Outcome, ReplayedRecord, Ticket
from coordinator.runtime import NotReady, Shard
from protocol.codec import read_metadata_frame
from protocol.errors import ErrorCode
from protocol.internal_topics import CLUSTER_METADATA
from protocol.schema import Buffer, schema_of
from storage.log import Log, LogConfig

E = TypeVar("E", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Spent = Callable[[], bool]
"""Whether the loop is to be given to others."""
SlicedOperation = Callable[[ClusterCoordinator, Ticket[list[R]], Sequence[E], Spent], Outcome[list[R]]]

_log = EventLog("cluster")

PASSED_OVER = 1 << 40
LOAD_READ_BYTES = 1 << 20
DECIDED_AT_ONCE: Final = 500
"""Entries of one request: to write down and take over what was decided of one may be a hundred calls."""
_TOPIC = schema_of(TopicRecord).api_key
METADATA_CONFIG = TopicConfig(log=LogConfig(retention_ms=-1, segment_ms=(1 << 63) - 1), max_message_bytes=1 << 30)
"""Nothing of the metadata log is dropped but what a snapshot holds (`broker.coordination.metadata_snapshots`). A topic
is made by one batch, and so is a start of the node."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a start begins with: a snapshot, or nothing and the log from its first offset on."""

    end_offset: int
    """Where the log is to be read from."""
    epoch: int = -1
    batches: list[Buffer] = field(default_factory=list[Buffer])
    is_cut: bool = False
    """The snapshot was damaged, and this is what stood before the damage."""

    def entries(self) -> Iterator[ReplayedRecord]:
        """The records of the snapshot, as of the last offset that it holds. Of one that is cut the last topic is left
        out: some of its partitions may be missing."""
        topic: list[ReplayedRecord] = []
        for batch in self.batches:
            for entry, _ in entries_of(batch):
                if not isinstance(entry, ReplayedRecord) or entry.value is None:
                    continue
                is_topic = read_metadata_frame(entry.value)[0] == _TOPIC
                entry = ReplayedRecord(self.end_offset - 1, entry.timestamp_ms, entry.stamp, entry.key, entry.value)
                if is_topic:
                    yield from topic
                    topic.clear()
                elif not topic:
                    yield entry
                    continue
                topic.append(entry)
        if not self.is_cut:
            yield from topic


class Large(Protocol[E, R_co]):
    """The request with entries that take too long beside others."""

    def holds(self, entry: E) -> bool:
        """Whether this is one, as far as it can be seen at a glance."""

    async def answer(self, entry: E) -> Sequence[R_co]:
        """Its result; none where it is to be decided as any other. Raises `CoordinatorError`."""


class _BehindSnapshot(PartitionShardLog):
    """The metadata log as its shard reads it: what stands before the snapshot is no matter."""

    def __init__(self, partition: Partition, start_offset: int) -> None:
        super().__init__(partition)
        self._start_offset = start_offset

    @property
    def start_offset(self) -> int:
        return self._start_offset


class Cluster:
    """The cluster's metadata. `epoch` is this start's: above that of every start the log knows.

    Over a store that several nodes reach it may begin without a log: it follows what another node writes, and takes no
    questions, until it leads.
    """

    partition: Partition
    """That of the metadata log, where this node leads it."""
    shard: Shard[ClusterCoordinator]
    """Takes the questions, where this node leads."""

    def __init__(
        self,
        log: Log | None,
        environment: Environment,
        *,
        on_written: Callable[[Partition], None],
        make_partition: Callable[..., Partition] = Partition,
        known_epoch: int = -1,
        begins: Beginning | None = None,
    ) -> None:
        """`known_epoch` is one that is known from elsewhere, where a part of the log was lost. `begins` is the snapshot
        to begin with."""
        self._environment = environment
        self._on_written = on_written
        self._make_partition = make_partition
        self._listeners: list[Callable[[], None]] = []
        self._incarnation = environment.random_bytes(16)
        self._machine = ClusterCoordinator()
        """What was followed so far; of one that leads its shard has it."""
        self._followed_offset = 0
        self.leads = False
        self.epoch = -1
        self.finalized_features: dict[str, int] = {}
        """As far as that is durable: a crash must not take back what a response contained."""
        self.finalized_features_epoch = -1
        """Grows with the metadata; clients take the features of the highest epoch they have heard of (KIP-584)."""
        if log is not None:
            begin = begins or Beginning(log.start_offset)
            self._lead(log, max(log.latest_epoch(), known_epoch, begin.epoch) + 1, begin, ClusterCoordinator)

    def _lead(self, log: Log, epoch: int, begins: Beginning, make: Callable[[], ClusterCoordinator]) -> None:
        self.leads, self.epoch, self._begins = True, epoch, begins
        environment = self._environment
        self.partition = self._make_partition(
            topic=CLUSTER_METADATA,
            topic_id=METADATA_TOPIC_ID,
            index=0,
            log=log,
            leader_epoch=self.epoch,
            config=METADATA_CONFIG,
            now_ms=environment.wall_ms,
            producer_expiration_ms=lambda: 86_400_000,
            on_written=self._on_written,
            durable_appends=True,
        )
        clock = SteadyClock(environment)
        self._shard_log = _BehindSnapshot(self.partition, begins.end_offset)
        self.shard = Shard(make, self._shard_log, clock, LoopTimer(clock), name=f"{CLUSTER_METADATA}-0")
        self.shard.on_bug = lambda error: _log.bug("an operation failed", error, shard=self.shard.name)
        self.shard.on_durable(self._durable_moved)

    def on_durable(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever more of the metadata is durable, before answers that wait for it are released."""
        self._listeners.append(listener)

    def _durable_moved(self) -> None:
        self._follow_features()
        for listener in self._listeners:
            listener()

    def _follow_features(self) -> None:
        durable, changes = self.durable_offset, self.image.feature_changes
        while changes and changes[0][0] < durable:
            self.finalized_features = changes.popleft()[1]
        self.finalized_features_epoch = max(durable - 1, 0)

    @property
    def image(self) -> ClusterImage:
        """What the log says, up to its very end; use `durable_offset` where it matters what is committed."""
        return self.shard.machine.image if self.leads else self._machine.image

    @property
    def durable_offset(self) -> int:
        return self.partition.high_watermark if self.leads else self._followed_offset

    # -- following -------------------------------------------------------------------------------------------

    def keep_leader_changes(self) -> None:
        """Several nodes lead partitions: what the log says of that is kept for who follows it."""
        self._machine.image.leader_changes = deque()

    async def begin_to_follow(self, begins: Beginning) -> None:
        """Take over a snapshot, where there is one. Nothing was followed yet."""
        await self._take_over(begins, self._machine)
        self._followed_offset = begins.end_offset
        self._durable_moved()

    async def follow(self, batches: Sequence[Buffer], end_offset: int) -> None:
        """Take in what another node has written, all of it up to `end_offset`, and durable. What lies behind may be
        gone with the next failover of the store; what was taken in before a wait that was given up is not taken again.
        """
        time_slice, image = self._environment.time_slice(), self._machine.image
        for batch in batches:
            for number, (entry, _) in enumerate(entries_of(batch), 1):
                if entry is not None and image.last_offset < entry.offset < end_offset:
                    self._machine.replay(entry)
                if number % STEP_RECORDS == 0 and time_slice.spent():
                    await time_slice.wait_for_turn()
        self._followed_offset = end_offset
        self._durable_moved()

    async def lead(self, log: Log, epoch: int, on_lost: Callable[[], None]) -> None:
        """Write from now on, under an epoch of this log's owner; all that the log says was followed. `on_lost` is
        called where what is in memory cannot be trusted any more."""
        assert self._followed_offset == log.end_offset, "who leads has followed to the end"
        self._lead(log, epoch, Beginning(log.end_offset), lambda: self._machine)
        self.shard.on_reload = on_lost
        await self.wait_until_loaded()

    async def _take_over(self, begins: Beginning, machine: ClusterCoordinator) -> None:
        time_slice = self._environment.time_slice()
        for number, entry in enumerate(begins.entries(), 1):
            machine.replay(entry)
            if number % STEP_RECORDS == 0 and time_slice.spent():
                await time_slice.wait_for_turn()
        begins.batches.clear()
        machine.image.record_bytes = 0

    # -- leading ---------------------------------------------------------------------------------------------

    async def wait_until_loaded(self) -> None:
        """Take over the snapshot and replay the log behind it, in slices."""
        if self._begins.batches:
            await self._take_over(self._begins, self.shard.machine)
        time_slice = self._environment.time_slice()
        log = self._shard_log
        while not self.shard.load_slice(LOAD_READ_BYTES, lambda: time_slice.spent() or log.is_waiting):
            await log.wait_until_here()
            await time_slice.wait_for_turn()

    async def register(
        self, node_id: int, rack: str | None, endpoints: tuple[tuple[str, str, int, int], ...], directory: bytes
    ) -> int:
        """Persist the epoch of this start; nothing may be served before. Returns it."""
        registration = Registration(node_id, self._incarnation, self.epoch, rack, endpoints, directory)
        return await self.ask(lambda machine, ticket: machine.register(ticket, registration))

    async def pass_over_producer_ids(self, node_id: int) -> None:
        """A part of the log was lost, or it is a copy and the other one went on: no id that may have been given away
        comes again. Of many copies each goes somewhere else."""
        passed_over = PASSED_OVER + int.from_bytes(self._environment.random_bytes(5))
        await self.ask(
            lambda machine, ticket: machine.take_producer_ids(ticket, node_id, self.epoch, passed_over=passed_over)
        )

    async def ask(self, operation: Callable[[ClusterCoordinator, Ticket[A]], Outcome[A]]) -> A:
        """Run an operation; returns its answer once durable. Raises `CoordinatorError`."""
        if not self.leads:
            raise CoordinatorError(ErrorCode.NOT_CONTROLLER)
        ticket: FutureTicket[A] = FutureTicket()
        try:
            self.shard.submit(lambda machine, _now_ms: operation(machine, ticket), ticket)
        except NotReady as not_ready:
            raise CoordinatorError(not_ready.error) from not_ready
        return await ticket.future

    async def ask_in_slices(
        self,
        entries: Sequence[E],
        operation: SlicedOperation[R, E],
        *,
        large: Large[E, R] | None = None,
    ) -> list[R]:
        """Run an operation on a request of many entries, each a matter of its own: it answers a list of one result for
        each entry it had the time for, and is run again on the rest. Entries that are too large for that are asked for
        by themselves. The time is that of deciding: what was decided is written and taken over as a whole, which may
        take ten times as long."""
        time_slice = self._environment.time_slice()
        results: list[R] = []
        apart = deque(number for number, one in enumerate(entries) if large is not None and large.holds(one))
        while True:
            begin = len(results)
            if large is not None and apart and apart[0] == begin:
                apart.popleft()
                results += await large.answer(entries[begin])
                end = begin + 1
            else:
                end = apart[0] if apart else len(entries)
            if len(results) < end or not entries:
                rest = entries[len(results) : min(end, len(results) + DECIDED_AT_ONCE)]
                results += await self._ask_for(rest, operation, time_slice.spent)
            if len(results) >= len(entries):
                return results
            if time_slice.spent():
                await time_slice.wait_for_turn()

    async def _ask_for(self, entries: Sequence[E], operation: SlicedOperation[R, E], spent: Spent) -> list[R]:
        return await self.ask(lambda machine, ticket: operation(machine, ticket, entries, spent))

    def take_no_more(self) -> None:
        """Whoever waits for an answer is told that this node is not the controller."""
        if self.leads:
            self.shard.close()

    def close(self) -> None:
        """Take no more questions; close the log."""
        self.take_no_more()
        if self.leads:
            self.partition.close()
