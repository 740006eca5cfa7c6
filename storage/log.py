"""What a log is: an ordered sequence of record batches, addressed by offset.

A log knows nothing of topics, groups or transactions, and never decodes records: it reads the
61-byte header of a batch and treats the rest as bytes. `MemoryLog` is the oracle, `SegmentLog` the
one on disk. All methods are called from one thread; none of them waits.

What follows from the bytes of a log (producer state, aborted transactions) is kept where the log is: a user of a log
gets that place from it, and never looks at the kind of log.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from protocol.records.batch import BatchHeader
from protocol.records.compression import DEFAULT_BOUNDS, Bounds
from protocol.schema import Buffer
from storage.steps import Spent, Steps, never

if TYPE_CHECKING:
    from storage.cleaner.compactor import Compactor, Derived
    from storage.epochs import EpochCache
    from storage.lookup import Unreadable
    from storage.producers.aborted import AbortedIndex
    from storage.producers.producer_snapshot import SnapshotFiles
    from storage.scrub import Scrub

BEYOND_ALL_OFFSETS = (1 << 63) - 1
LATEST_MS = (1 << 63) - 1
"""The latest time that a batch or a setting can say."""
CHECKPOINT_BYTES = 64 << 20
CHECKPOINT_BATCHES: Final = 50_000
"""After how much a log requests a checkpoint: what bounds the work of recovery."""


class OffsetOutOfRange(Exception):
    """The offset lies before the start or after the end of the log."""


class LogDamaged(Exception):
    """What was known to be on the disk is not there any more, or not as it was written. Nothing was changed.

    `offset` is where it begins, `next_offset` where the log can be read again.
    """

    def __init__(
        self, path: str, position: int | None, offset: int, reason: str, next_offset: int = BEYOND_ALL_OFFSETS
    ) -> None:
        place = f"offset {offset}" if position is None else f"byte {position}, offset {offset}"
        super().__init__(f"{path} is damaged at {place}: {reason}")
        self.folder = path.rpartition("/")[0]
        self.offset = offset
        self.next_offset = next_offset
        self.named = False
        """Whether the broker's log has named it: once is enough."""


class StorageFailed(Exception):
    """The disk refused a write or a sync. The log takes no more writes and the process is to end."""


class LogClosed(Exception):
    """The log was closed or abandoned, as that of a deleted topic is: nothing is wrong with the disk."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The part of a topic's configuration that concerns its logs. Kafka's names, units last; -1 is unlimited."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 86_400_000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    retention_ms: int = 7 * 86_400_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LATEST_MS
    delete_retention_ms: int = 86_400_000
    decompression: Bounds = DEFAULT_BOUNDS
    """How far batches may grow where the log has to look inside."""


@dataclass(frozen=True, slots=True)
class TimestampedOffset:
    """The answer of a lookup by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """What a read returned, and the offset just past its last batch (the requested one where it is empty)."""

    batches: list[Buffer]
    next_offset: int


class LogObserver(Protocol):
    """Owners of something beside a log that follows from its bytes (producer state, aborted index)."""

    def segment_rolled(self, base_offset: int) -> None:
        """A new active segment begins at `base_offset`; everything before is final."""

    def truncated(self, end_offset: int) -> None:
        """Everything from `end_offset` on is gone."""

    def trimmed(self, start_offset: int) -> None:
        """Everything before `start_offset` is gone for readers."""

    def checkpoint_due(self, offset: int) -> None:
        """64 MiB (or many batches) were appended since the last time: what recovery would otherwise have to compute
        again is to be written down with the next checkpoint."""

    def checkpoint_begins(self, *, closing: bool) -> Callable[[], None] | None:
        """A flush begins that moves the recovery point, the last of all where `closing`: what is to be written down
        before. It is called once, on the thread of the flush, and raises `OSError`."""

    def checkpoint_ended(self) -> None:
        """That flush is over."""


class Flush(Protocol):
    """One flush under way, between `Log.begin_flush` and `Log.finish_flush`."""

    @property
    def end_offset(self) -> int:
        """Everything below is on the disk once `run` has returned."""

    @property
    def shares_commits(self) -> bool:
        """See `Log`."""

    def run(self) -> None:
        """Sync the files. May be called from another thread; touches nothing but files. Raises `OSError`."""


class AnyLog:
    """What is so of every log."""

    end_offset: int
    _epochs: "EpochCache"
    _observers: list[LogObserver]

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """See `Log`."""
        return self._epochs.end_of(leader_epoch, self.end_offset)

    def first_epoch(self) -> int:
        """See `Log`."""
        return self._epochs.first()

    def latest_epoch(self) -> int:
        """See `Log`."""
        return self._epochs.latest()

    def observe(self, observer: LogObserver) -> None:
        """See `Log`."""
        self._observers.append(observer)


class AllHere(AnyLog):
    """What of a log is so where all of it can be read and written at once."""

    takes_writes = True
    in_runs = False

    @property
    def shares_commits(self) -> bool:
        """See `Log`."""
        return False

    start_offset: int

    @property
    def written_start(self) -> int:
        """See `Log`."""
        return self.start_offset

    def away(self, offset: int) -> None:
        """Nothing is."""


class Log(Protocol):
    """See the head of this file."""

    @property
    def written_start(self) -> int:
        """The start that whoever has the log next would find in it: behind `start_offset` until that is committed where
        others may have the log, the same where nobody can."""

    @property
    def start_offset(self) -> int:
        """The first offset a reader may ask for (Kafka's log start offset)."""

    @property
    def end_offset(self) -> int:
        """The offset the next record gets (Kafka's log end offset)."""

    @property
    def durable_offset(self) -> int:
        """Everything below survives a power cut. Never goes back, but by `truncate`."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def bytes_written(self) -> int:
        """Appended since it was opened."""

    @property
    def takes_writes(self) -> bool:
        """Whether an append is taken now; where so much waits to become durable that it is not, it will be later."""

    @property
    def in_runs(self) -> bool:
        """Whether compaction has work with it though no key is ever superseded."""

    def append(self, batches: Buffer, *, leader_epoch: int) -> int:
        """Append one or several whole, already validated batches; returns the base offset of the first.

        Writes base offsets and `leader_epoch` into the headers (both outside the CRC) without copying the
        rest. The log does not keep `batches`. Durable only after a flush. Raises `StorageFailed`.
        """

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk with all that belongs to it, and is believed after a power cut; a restart
        checks and indexes what lies behind. At most `durable_offset`."""

    @property
    def checkpoint_wanted(self) -> bool:
        """The next flush moves the recovery point: where appends need not be durable, this is when to flush."""

    @property
    def shares_commits(self) -> bool:
        """Whether the next flush needs no sync of its own: one serves all logs that say so (`File.shares_commits`)."""

    @property
    def is_flushing(self) -> bool:
        """Whether another thread may be working on the files: between `begin_flush` and `finish_flush`, or on a
        snapshot."""

    def begin_flush(self, *, closing: bool = False) -> Flush | None:
        """What is to be synced now, or None where everything is durable. At most one flush at a time. With `closing`,
        the recovery point moves to the end too: a restart has nothing to check. Raises `StorageFailed`."""

    def finish_flush(self, flush: Flush) -> None:
        """`flush.run()` succeeded: publish the new durable offset."""

    def flush_now(self) -> int:
        """begin, run, finish, in place; for shutdown and tests. Returns the durable offset."""

    def read(self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True) -> list[Buffer]:
        """Whole batches from the one that holds `offset` (which may lie inside it) up to, not including, the first
        batch that reaches `end_offset` or beyond; at most `max_bytes`, but the first batch whole if
        `at_least_one` (KIP-74). Empty at the end of the log. Raises `OffsetOutOfRange`.
        The buffers are immutable to the log and stay valid as long as the caller holds them.
        Raises `LogDamaged` where there is a damage at `offset`; what lies before one is read.
        """

    def read_slice(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True, to_send: bool = False
    ) -> LogSlice:
        """As `read`, with the offset where the bytes end: the exact upper bound for the aborted-transaction lookup.
        With `to_send` large pieces may stay in their files (`File.read_to_send`)."""

    def away(self, offset: int) -> Awaitable[None] | None:
        """What is to be awaited until a read at an offset returns what there is: it comes from another machine, and a
        read returns nothing meanwhile. None where there is no need. Awaiting it raises `OSError` where it cannot be had
        now; the call raises `LogDamaged`."""

    def truncate(self, end_offset: int) -> None:
        """Drop everything from `end_offset` on."""

    def roll(self) -> None:
        """Begin a new part (`segment_bases`) with the next append, so that what stands before can leave as a whole.
        Raises `StorageFailed`."""

    def trim(self, start_offset: int) -> None:
        """Move the start forward (DeleteRecords, retention); bytes may be freed later."""

    def due_offset(self, now_ms: int, high_watermark: int) -> int:
        """Where that ends which has had its time: before it goes, what follows from its bytes is to be written down."""

    def enforce_retention(self, now_ms: int, high_watermark: int) -> bool:
        """Give up what has had its time, a slice of it. True if there is more to do. Raises `StorageFailed`."""

    def free_space(self, now_ms: int) -> Steps[None] | None:
        """Free the space of what was given up file.delete.delay.ms ago, by retention or compaction; None where there is
        nothing. Raises `OSError`."""

    def scrub(self, work: "Scrub") -> Steps[None]:
        """Look for damage in what has been on the disk for long. Gives up where the log is closed meanwhile. Raises
        `OSError`."""

    def offset_for_timestamp(
        self, timestamp_ms: int, *, end_offset: int, spent: Spent = never
    ) -> Steps[TimestampedOffset | None]:
        """The first record (not batch) below `end_offset` whose timestamp is >= `timestamp_ms`."""

    def max_timestamp(self, spent: Spent = never) -> Steps[TimestampedOffset | None]:
        """The record with the largest timestamp, the first of them (KIP-734)."""

    @property
    def unreadable(self) -> "Unreadable":
        """Batches that lookups have passed over."""

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch: the largest known epoch <= the given one and the offset
        where the next one begins; (-1, -1) where nothing is known or the epoch lies in the future."""

    def first_epoch(self) -> int:
        """The epoch of the first batch, -1 in an empty log."""

    def latest_epoch(self) -> int:
        """The epoch of the last batch, -1 in an empty log."""

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
        """Every batch header from the batch that holds `from_offset` on, with the whole batch if it is a control batch:
        what rebuilding the producer state needs. The log must not change meanwhile."""

    def configure(self, config: LogConfig) -> None:
        """Take a changed configuration from now on."""

    def observe(self, observer: LogObserver) -> None: ...

    def segment_bases(self) -> list[int]:
        """Where the parts begin that come and go as a whole, the oldest first: a log has one at least. Bytes that are
        there begin with the first of them, at or before `start_offset`."""

    def snapshots(self) -> "SnapshotFiles | None":
        """Where producer state is written down; None where nothing of the log outlives the process."""

    def aborted_index(self) -> "AbortedIndex":
        """The index of aborted transactions, as far as it was kept."""

    def compactor(self, derived: "Derived", *, report: "Callable[[str], None]") -> "Compactor | None":
        """Compaction of this log, with `derived` that follows from its bytes; None where nothing is ever compacted."""

    def close(self) -> None:
        """Flush and close; a clean shutdown leaves nothing to recover."""

    def abandon(self) -> None:
        """Close as it is, and write nothing: the log has failed, or is deleted."""
