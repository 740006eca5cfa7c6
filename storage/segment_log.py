"""The log on disk: segments in Kafka's files, one of them active, the others final.

Rules. The active segment is the last one; only it is written. What was appended is readable at once and durable after
a flush. A write or sync that failed is final: the log takes no more writes (`StorageFailed`) and the process is to end.
The recovery point follows the durable offset from checkpoint to checkpoint (64 MiB, many batches, a roll, a close),
when indexes and epochs are synced too.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

from protocol.records.batch import BatchHeader
from protocol.schema import Buffer
from storage.checkpoints import replace_unsynced
from storage.cleaner.cleaned_segment import CleanedSegment
from storage.cleaner.compactor import Compactor, Derived
from storage.disposal import Disposal
from storage.epochs import EPOCHS_FILE
from storage.files import Files
from storage.flushing import SegmentFlush, Unsynced
from storage.log import (
    CHECKPOINT_BATCHES,
    CHECKPOINT_BYTES,
    AllHere,
    Flush,
    LogClosed,
    LogConfig,
    LogDamaged,
    LogObserver,
    LogSlice,
    OffsetOutOfRange,
    StorageFailed,
)
from storage.lookup import Found, Unreadable, find_in_segments, headers_from, newest_in_segments
from storage.producers.aborted import AbortedIndex
from storage.producers.producer_snapshot import SnapshotFiles
from storage.read_hints import ReadHints
from storage.recovery import Loaded, Recovery, load
from storage.retention import due_offset, enforce_retention, free_space
from storage.scrub import Scrub, scrub
from storage.segment_ends import look_at_end
from storage.segments.segment import Segment, roll_age_ms
from storage.segments.segment_format import BATCH_EXTENT
from storage.segments.stamping import Placed, stamp, together
from storage.steps import Spent, Steps, never


class SegmentLog(AllHere):
    """See `storage.log.Log` for the contract of every method."""

    def __init__(self, files: Files, folder: str, config: LogConfig, now_ms: Callable[[], int], found: Loaded) -> None:
        self.files, self.folder, self.config = files, folder, config
        self.segments = found.segments
        self.start_offset, self.end_offset = found.start_offset, found.end_offset
        self.durable_offset = self.recovery_point = found.durable_offset
        self.recovery_notes = found.notes
        self.unreadable, self.failed, self.closed = Unreadable(folder), False, False
        self.on_sync_failed: Callable[[], object] | None = None  # on the thread whose sync it is
        self.replacement: CleanedSegment | None = None  # made by compaction, and about to take over
        self.disposal, self._now_ms, self._epochs = Disposal(files), now_ms, found.epochs
        self._bases = [segment.base_offset for segment in found.segments]
        self._observers: list[LogObserver] = []
        self._flush: SegmentFlush | None = None
        self._unsynced, self._hints = Unsynced(found.unsynced), ReadHints()
        self.bytes_written, self._checkpoint_at, self._batches_since_checkpoint = 0, CHECKPOINT_BYTES, 0
        self._roll_after_ms = roll_age_ms(self.config, self.folder, self._bases[-1])

    @classmethod
    def open(
        cls, files: Files, folder: str, config: LogConfig, *, now_ms: Callable[[], int], recovery: Recovery
    ) -> "SegmentLog":
        """Open or make the log of a folder. What was found is durable when this returns, if `recovery.sync`."""
        log = cls(files, folder, config, now_ms, load(files, folder, config, now_ms=now_ms, recovery=recovery))
        if not recovery.clean or log.end_offset == log.start_offset:
            # A process that was killed may not have come to sync them; those of an empty log are not when it is closed.
            log._unsynced.begun(folder)
        if log._unsynced and (recovery.sync or recovery.distrusted):
            log.flush_now()
        return log

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    def append(self, batches: Buffer, *, leader_epoch: int) -> int:
        parts, placed = stamp(batches, base_offset := self.end_offset, leader_epoch)
        if placed:
            self._write(parts, placed)
            if leader_epoch != self._epochs.latest() and self._epochs.assign(leader_epoch, base_offset):
                self._write_epochs()
        return base_offset

    def _write(self, parts: list[Buffer], placed: list[Placed]) -> None:
        self._check_healthy()
        if self.bytes_written >= self._checkpoint_at or self._batches_since_checkpoint >= CHECKPOINT_BATCHES:
            self._checkpoint()
        whole = placed[0] if len(placed) == 1 else together(placed)
        active = self.segments[-1]
        if not active.has_room(
            whole.size_bytes, whole.last_offset, whole.max_timestamp_ms, self._now_ms, self._roll_after_ms
        ):
            self.roll(whole.base_offset)
            active = self.segments[-1]
        before = active.size_bytes
        try:
            active.append(parts, placed)
        except OSError as error:
            self._fail(error, active, before)
        self._unsynced.wrote(active)
        self.end_offset = whole.last_offset + 1
        self.bytes_written += whole.size_bytes
        self._batches_since_checkpoint += len(placed)

    def _check_healthy(self) -> None:
        if self.failed or (self._flush is not None and self._flush.failed):
            self.failed = True
            raise LogClosed(self.folder) if self.closed else StorageFailed("an earlier write or sync failed")

    def _fail(self, error: OSError, segment: Segment | None = None, size_bytes: int = 0) -> NoReturn:
        self.failed = True
        if segment is not None:
            segment.size_bytes = size_bytes
            with suppress(OSError):  # The tear stays; recovery cuts it off.
                segment.log.truncate(size_bytes)
        raise StorageFailed(f"{self.folder}: {error}") from error

    def _checkpoint(self) -> None:
        self._checkpoint_at, self._batches_since_checkpoint = self.bytes_written + CHECKPOINT_BYTES, 0
        self._unsynced.checkpoint = True
        for observer in self._observers:
            observer.checkpoint_due(self.end_offset)

    def roll(self, base_offset: int | None = None) -> None:
        """Begin a new active segment. Compaction does it too: it never touches the active one."""
        if (base := self.end_offset if base_offset is None else base_offset) == (old := self.active).base_offset:
            return
        try:
            old.finish()
            segment = self._segment(base)
        except OSError as error:
            self._fail(error)
        self._unsynced.rolled(old, self.folder)
        self.segments.append(segment)
        self._bases.append(base)
        self._roll_after_ms = roll_age_ms(self.config, self.folder, base)
        for observer in self._observers:
            observer.segment_rolled(base)
        self._checkpoint_at, self._batches_since_checkpoint = self.bytes_written + CHECKPOINT_BYTES, 0

    def _segment(self, base_offset: int) -> Segment:
        """One that begins there, with all of its files. Raises `OSError`."""
        return Segment(self.files, self.folder, base_offset, self.config, created_ms=self._now_ms()).open_indexes()

    def _write_epochs(self) -> None:
        """To the page cache; the next checkpoint syncs it. Losing it costs a walk over the headers, nothing else."""
        self._unsynced.epochs = True
        try:
            replace_unsynced(self.files, f"{self.folder}/{EPOCHS_FILE}", self._epochs.to_bytes())
        except OSError as error:
            self._fail(error)

    def begin_flush(self, *, closing: bool = False) -> SegmentFlush | None:
        self._check_healthy()
        assert self._flush is None, "one flush at a time"
        if closing:
            self._unsynced.want_checkpoint(self.active, behind=self.recovery_point < self.end_offset)
        if not self._unsynced and self.durable_offset == self.end_offset:
            return None
        try:
            self._flush = self._unsynced.take(self.files, self.folder, self.end_offset, self.active, self._epochs)
            self._flush.begins(self._observers, self.on_sync_failed, closing=closing)
        except OSError as error:
            self._fail(error)
        return self._flush

    def finish_flush(self, flush: Flush) -> None:
        assert isinstance(flush, SegmentFlush) and self._flush is flush, "this flush is not the one under way"
        self._flush = None
        flush.finished()
        self.durable_offset = max(self.durable_offset, flush.end_offset)
        if flush.is_checkpoint:
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def flush_now(self, *, closing: bool = False) -> int:
        if (flush := self.begin_flush(closing=closing)) is not None:
            try:
                flush.run()
            except OSError as error:
                self._fail(error)
            self.finish_flush(flush)
        return self.durable_offset

    @property
    def is_flushing(self) -> bool:
        return self._flush is not None or self.disposal.borrowers > 0

    @property
    def shares_commits(self) -> bool:
        return self._unsynced.shares_commits

    @property
    def checkpoint_wanted(self) -> bool:
        return self._unsynced.checkpoint

    def read(self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True) -> list[Buffer]:
        return self.read_slice(offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one).batches

    def read_slice(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True, to_send: bool = False
    ) -> LogSlice:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange
        if offset >= (end_offset := min(end_offset, self.end_offset)):
            return LogSlice([], offset)
        index, position = self._hints.get(offset) or self._locate(offset)
        found, next_offset, left, last = list[Buffer](), offset, max_bytes, len(self.segments) - 1
        while True:
            segment = self.segments[index]
            ends = self._bases[index + 1] if index < last else self.end_offset
            try:
                if index < last:
                    look_at_end(self, segment, ends)
                    ends = min(ends, segment.ends_at)
                if (is_there := position < segment.size_bytes) or segment.lies_behind_gap(next_offset):
                    least = at_least_one and not found
                    part, position = segment.read(
                        position, left, next_offset, ends, end_offset, at_least_one=least, to_send=to_send
                    )
            except LogDamaged:
                if not found:
                    raise
                return LogSlice(found, next_offset)
            if is_there:
                found += part.batches
                left -= sum(map(len, part.batches))
                next_offset = part.next_offset
            if position < segment.size_bytes or index == last or (left <= 0 and (found or not at_least_one)):
                break
            index, position = index + 1, 0
        if index == last or position < self.segments[index].size_bytes:
            self._hints.keep(next_offset, index, position)
        return LogSlice(found, next_offset)

    def _locate(self, offset: int) -> tuple[int, int]:
        """(index of the segment, position) of the first batch that ends behind `offset`."""
        return (index := max(0, bisect_right(self._bases, offset) - 1)), self.segments[index].locate(offset)

    def truncate(self, end_offset: int) -> None:
        if end_offset >= self.end_offset:
            return
        self._check_healthy()
        try:
            end_offset = self._cut(end_offset)
        except OSError as error:
            self._fail(error)
        self.end_offset, self.start_offset = end_offset, min(self.start_offset, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, end_offset)
        if self._epochs.truncate_end(end_offset, log_start_offset=self.start_offset):
            self._write_epochs()
        for observer in self._observers:
            observer.truncated(end_offset)

    def _cut(self, end_offset: int) -> int:
        """Drop whole segments from the last on, then cut the one that is left. On the disk when this returns."""
        self._remove(range(bisect_left(self._bases, end_offset), len(self.segments)))
        if not self.segments:
            self.segments.append(self._segment(end_offset))
            self._bases.append(end_offset)
        active = self.active
        if (position := active.locate(end_offset)) < active.size_bytes:
            end_offset = min(end_offset, BATCH_EXTENT.unpack(active.log.read(position, BATCH_EXTENT.size))[0])
            active.truncate(position)
        active.log.sync()
        self.files.sync_folder(self.folder)
        self._unsynced.indexed(active)
        return end_offset

    def replace_segments(self, which: range, install: Callable[[int], Segment]) -> None:
        """Let `install`, given the time, put a compacted segment, already synced, in the place of final ones."""
        assert 0 <= which.start < which.stop < len(self.segments), "the active segment is not compacted"
        self._check_healthy()
        base = self._bases[which.start]
        try:
            self._remove(which, with_snapshots=False)
            segment = install(self._now_ms())
        except OSError as error:
            self._fail(error)
        assert segment.base_offset == base
        self.segments.insert(which.start, segment)
        self._bases.insert(which.start, base)
        self._unsynced.indexed(segment)
        self._unsynced.touched(self.folder)

    def _remove(self, which: range, *, with_snapshots: bool = True) -> None:
        """Take segments out of the log and give their files to the disposal; the last ones go first."""
        now_ms = self._now_ms()
        for index in reversed(which):
            segment = self.segments.pop(index)
            del self._bases[index]
            self._unsynced.forget(segment)
            self.disposal.take(segment, now_ms + self.config.file_delete_delay_ms, with_snapshot=with_snapshots)
        self._hints.clear()

    def remove_oldest(self, count: int) -> None:
        """Give up the first `count` segments; retention decided it. At least one remains."""
        assert 0 < count < len(self.segments)
        try:
            if (ready := self.replacement) is not None and ready.base_offset < self._bases[count]:
                ready.give_up()  # a start that found it would put it where its segments were, before a gap
            for _ in range(count):
                self._remove(range(0, 1))
        except OSError as error:
            self._fail(error)
        self._unsynced.touched(self.folder)
        self.trim(self._bases[0])

    def trim(self, start_offset: int) -> None:
        if start_offset > self.end_offset:
            raise OffsetOutOfRange
        if start_offset <= self.start_offset:
            return
        self.start_offset = start_offset
        if self._epochs.truncate_start(start_offset):
            self._write_epochs()
        for observer in self._observers:
            observer.trimmed(start_offset)

    def due_offset(self, now_ms: int, high_watermark: int) -> int:
        return due_offset(self, now_ms, high_watermark)

    def enforce_retention(self, now_ms: int, high_watermark: int) -> bool:
        return enforce_retention(self, now_ms, high_watermark)

    def free_space(self, now_ms: int) -> Steps[None] | None:
        return free_space(self, now_ms) if self.disposal.is_due(now_ms) else None

    def scrub(self, work: Scrub) -> Steps[None]:
        return scrub(self, work)

    def offset_for_timestamp(self, timestamp_ms: int, *, end_offset: int, spent: Spent = never) -> Steps[Found]:
        return find_in_segments(timestamp_ms, self, end_offset=end_offset, spent=spent)

    def max_timestamp(self, spent: Spent = never) -> Steps[Found]:
        return newest_in_segments(self, end_offset=self.end_offset, spent=spent)

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
        if from_offset >= self.end_offset:
            return
        index, position = self._locate(max(from_offset, self._bases[0]))
        yield from headers_from(self, index, position)

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._roll_after_ms = roll_age_ms(self.config, self.folder, self._bases[-1])
        for segment in self.segments:
            segment.configure(config)

    def segment_bases(self) -> list[int]:
        return list(self._bases)

    def snapshots(self) -> SnapshotFiles:
        return SnapshotFiles(self.files, self.folder, self.disposal)

    def aborted_index(self) -> AbortedIndex:
        return AbortedIndex(self.files, self.folder, self._bases)

    def compactor(self, derived: Derived, *, report: Callable[[str], None]) -> Compactor:
        return Compactor(self, derived, report=report)

    def close(self) -> None:
        if not self.failed and self._flush is None:
            self.flush_now(closing=True)
        self.abandon()

    def abandon(self) -> None:
        self.failed = self.closed = True
        self._observers = []  # they refer to this log: freed at once, and not by the collector
        if self._flush is not None:
            self._flush.abandoned = True
        self.disposal.close()
        for segment in self.segments:
            segment.close()
