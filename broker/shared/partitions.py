"""Where the logs of partitions live: in a store that several nodes can reach. Those that this node opens are its own.

A log is claimed and its tail brought before it is opened, which then takes no time. What belongs to a deleted topic is
forgotten in the store when nothing uses it any more; what a crash has kept from that, by the next start.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from broker.partitions.partition_store import PartitionStore
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.bringing import LogSource, Own, tail_of
from broker.shared.patience import Patience
from broker.shared.reading.ahead import ReadingAhead
from coordinator.cluster.topic_rules import LONGEST_NAME, METADATA_TOPIC_ID
from protocol.internal_topics import CLUSTER_METADATA, OF_COORDINATORS
from storage.files import FilesBeside
from storage.log import Log, LogConfig, LogDamaged, StorageFailed
from storage.metadata_snapshots import SnapshotFolder
from storage.shared.beside import FOLDER, Beside
from storage.shared.kept_files import KeptFiles, KeptUnreadable
from storage.shared.parts import PART_BATCHES, PART_RUNS
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import (
    Fenced,
    Incarnation,
    ObjectMissing,
    OwnedLog,
    SharedStore,
    StoreRefused,
    StoreUnreachable,
)
from storage.stretch import Stretch

ENOUGH_BYTES = 8 << 20
"""Of what another node has committed, at a time."""

_log = EventLog("store")


class LogMoved(Exception):
    """The log of another node is not the one that was followed any more, or begins behind what was seen of it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What its owner has committed behind the end of a log, and where it begins now."""

    tail: Stretch
    start_offset: int
    next_offset: int
    """Where the tail ends."""
    is_all: bool


class SharedPartitions(PartitionStore):
    """See the head of this file. `own` runs work in a task of the node's."""

    opened_at_a_time = 8

    def __init__(
        self,
        store: SharedStore,
        who: Incarnation,
        environment: Environment,
        memory: ReadMemory,
        *,
        own: Own,
        read_ahead_bytes: int = 0,
    ) -> None:
        self._store = store
        self._who = who
        self._environment = environment
        self._memory = memory
        self._own = own
        self._ahead = ReadingAhead(store, memory, read_ahead_bytes, own, environment.time_slice)
        self._prepared: dict[tuple[bytes, int], SharedLog | LogDamaged] = {}
        self._beside: dict[tuple[str, int], KeptFiles] = {}
        """What is written down beside the log of the metadata."""

    def beside(self) -> None:
        return None

    async def wait_until_prepared(self, topic: str, topic_id: bytes, index: int, epoch: int) -> None:
        name = f"{topic}-{index}"
        patience = Patience("logs wait to be opened")
        try:
            owned = await patience.until_reached(lambda: self._store.claim(self._who, topic_id, index, epoch))
            log: SharedLog | LogDamaged
            try:
                kept, beside = self._beside_of(owned, name)
                if topic == CLUSTER_METADATA:
                    self._beside[topic, index] = kept
                offset = beside.needed_from
                tail = await patience.until_reached(lambda: tail_of(self._store, owned, offset, name))
                log = self._log_over(topic, owned, beside, tail, name)
                log.source = LogSource(log, self._ahead)
            except LogDamaged as damaged:
                log = damaged
        except (Fenced, StoreRefused) as error:
            raise StorageFailed(f"{name}: {error}") from error
        self._prepared[topic_id, index] = log

    def _beside_of(self, owned: OwnedLog, name: str) -> tuple[KeptFiles, Beside]:
        """Raises `LogDamaged`."""
        try:
            kept = KeptFiles.from_bytes(owned.kept)
            return kept, Beside(kept, owned.first_offset, self._environment.wall_ms())
        except (KeptUnreadable, ValueError) as error:
            reason = f"what was written down beside it: {error}"
            raise LogDamaged(name, None, owned.first_offset, reason) from error

    def _log_over(self, topic: str, owned: OwnedLog, beside: Beside, tail: Stretch, name: str) -> SharedLog:
        is_apart = self._store.keeps_apart and topic not in OF_COORDINATORS
        return SharedLog(
            name,
            owned,
            beside,
            tail,
            LogConfig(),
            memory=self._memory,
            now_ms=self._environment.wall_ms,
            part_runs=PART_RUNS if is_apart else PART_BATCHES,
        )

    # -- logs of others --------------------------------------------------------------------------------------

    async def look_at(self, topic: str, topic_id: bytes, index: int) -> SharedLog:
        """The log of a partition that another node leads, as it is committed now. Raises `StoreUnreachable`, also where
        nobody has made it yet; `LogMoved`, `LogDamaged`, `Fenced`, `StoreRefused`."""
        name = f"{topic}-{index}"
        found = await self._store.look(self._who, topic_id, index, with_kept=True)
        if found is None:
            raise StoreUnreachable(f"{name} was not made yet")
        _, beside = self._beside_of(found.log, name)
        tail = await self._tail_of_another(found.log, beside.needed_from, name)
        log = self._log_over(topic, found.log, beside, tail, name)
        log.source = LogSource(log, self._ahead, of_another=True)
        return log

    async def look_behind(self, log: SharedLog, topic_id: bytes, index: int) -> Committed:
        """What was committed behind its end, or enough of it. Raises what `look_at` does."""
        found = await self._store.look(self._who, topic_id, index, with_kept=False)
        if found is None or found.log.log_id != log.owned.log_id:
            raise LogMoved(f"{log.name} is another log by now")
        owned = found.log
        if owned.first_offset > log.end_offset:
            raise LogMoved(f"{log.name} begins at {owned.first_offset}, and was followed up to {log.end_offset}")
        tail = await self._tail_of_another(owned, log.end_offset, log.name, ENOUGH_BYTES)
        ends = tail.placed[-1].last_offset + 1 if tail.size_bytes >= ENOUGH_BYTES else owned.next_offset
        return Committed(tail, owned.start_offset, ends, is_all=ends == owned.next_offset)

    async def _tail_of_another(
        self, owned: OwnedLog, offset: int, name: str, enough_bytes: int | None = None
    ) -> Stretch:
        try:
            return await tail_of(self._store, owned, offset, name, enough_bytes=enough_bytes)
        except LogDamaged as damaged:
            if isinstance(damaged.__cause__, ObjectMissing):
                raise LogMoved(f"{name} was written anew while it was read") from damaged
            raise

    def let_go(self, topic_id: bytes, index: int) -> None:
        prepared = self._prepared.pop((topic_id, index), None)
        if isinstance(prepared, SharedLog):
            prepared.abandon()

    def open(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        config: LogConfig,
        files: FilesBeside | None = None,
        *,
        start_offset: int = 0,
    ) -> Log:
        log = self._prepared.pop((topic_id, index))
        if isinstance(log, LogDamaged):
            raise log
        log.configure(config)
        return log

    def metadata_snapshots(self, topic: str, index: int) -> SnapshotFolder:
        """They are committed with the log."""
        return SnapshotFolder(self._beside[topic, index], FOLDER)

    def epoch_before_repair(self, topic: str, index: int) -> int | None:
        return None

    def release(self, log: Log) -> bool:
        if log.is_flushing:
            return False
        log.abandon()
        return True

    def remove(self, topic: str, topic_id: bytes, indexes: Iterable[int], files: FilesBeside) -> None:
        """The name of a log is the id of its topic: nothing is in the way of another of the same name."""

    def removed(self, topic: str, topic_id: bytes, partition_count: int) -> None:
        for index in range(partition_count):
            self.let_go(topic_id, index)  # It was deleted before it was opened.
        self._own(self._forget([topic_id]))

    async def wait_until_tidy(self, known: Iterable[bytes]) -> None:
        """Forget what is of no topic: a crash came before it was."""
        patience = Patience("a start looks for topics that are gone")
        try:
            there = await patience.until_reached(self._store.topic_ids)
        except StoreRefused as refused:
            raise StorageFailed(str(refused)) from refused
        await self._forget(sorted(set(there).difference(known, [METADATA_TOPIC_ID])))

    async def _forget(self, topic_ids: list[bytes]) -> None:
        patience = Patience("deleted topics wait to be forgotten")
        for topic_id in topic_ids:
            try:
                await patience.until_reached(lambda: self._store.forget(self._who, topic_id))  # noqa: B023
            except (Fenced, StoreRefused) as over:
                raise StorageFailed(str(over)) from over

    def longest_topic_name(self) -> int:
        return LONGEST_NAME

    def sweep(self) -> None:
        return None
