"""A log in a shared store, as its owner has it: appends go to memory, and into the store with the next commit.

Rule 1. What was appended and not committed is in memory, whole; so is what was committed last. The rest is brought from
        the store when somebody wants to read it: until then a read returns nothing, and `on_readable` is called when
        there is more.
Rule 2. A commit takes all that was appended since the last one, and with it the bounds of the log and what is written
        down beside it: producers, aborted transactions, epochs, parts. They are of the same moment.
Rule 3. A log that another node owns takes no more writes: what waited for its commit was never acknowledged.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from protocol.records.batch import BatchHeader
from protocol.schema import Buffer
from storage.log import (
    AnyLog,
    Flush,
    LogClosed,
    LogConfig,
    LogDamaged,
    LogObserver,
    LogSlice,
    OffsetOutOfRange,
    StorageFailed,
)
from storage.lookup import Found, Unreadable
from storage.producers.aborted import AbortedIndex
from storage.producers.producer_snapshot import SnapshotFiles
from storage.segments.stamping import Placed, leader_epoch_at, stamp
from storage.shared import lookup
from storage.shared.beside import Beside
from storage.shared.compacting import SharedCompactor
from storage.shared.flush import SharedFlush
from storage.shared.parts import PART_BATCHES, Part, due_parts
from storage.shared.read_memory import ReadMemory
from storage.shared.replacement import Replacement, runs_of
from storage.shared.resident import Resident
from storage.shared.source import Source
from storage.shared.store import LogChange, OwnedLog
from storage.steps import Spent, Steps, never
from storage.stretch import Stretch

if TYPE_CHECKING:
    from storage.cleaner.compactor import Derived
    from storage.scrub import Scrub


def _nothing() -> None:
    """Nobody is to be told."""


class SharedLog(AnyLog):
    """See `storage.log.Log` for the contract of every method."""

    in_runs = True

    def __init__(
        self,
        name: str,
        owned: OwnedLog,
        beside: Beside,
        tail: Stretch,
        config: LogConfig,
        *,
        memory: ReadMemory,
        now_ms: Callable[[], int],
        part_runs: int = PART_BATCHES,
    ) -> None:
        """`tail` is all that there is from `beside.needed_from` on; a part has `part_runs` at most, about."""
        self.name, self.owned, self.config = name, owned, config
        self.source: Source | None = None
        self.on_readable: Callable[[], None] = _nothing
        self.on_changed: Callable[[], None] = _nothing
        """Called where something is to be committed that no append has brought."""
        self.start_offset = owned.start_offset
        self.end_offset = self.durable_offset = self.recovery_point = owned.next_offset
        self.unreadable, self.failed, self.closed = Unreadable(name), False, False
        self.bytes_written = 0
        self.checkpoint_wanted = self.shares_commits = False
        self.beside = beside
        self._memory, self._now_ms, self._part_runs = memory, now_ms, part_runs
        self._observers: list[LogObserver] = []
        self._flush: SharedFlush | None = None
        self._replacement: Replacement | None = None
        self.written_start, self._written_first = owned.start_offset, owned.first_offset
        self._here = Resident(tail, beside.needed_from, self.end_offset, memory)
        self._epochs = beside.epochs()
        for batch, placed in zip(tail.batches, tail.placed, strict=True):
            if placed.base_offset >= beside.covered:
                self.parts[-1].take(placed)
            self._epochs.assign(leader_epoch_at(batch), placed.base_offset)

    # -- appending -------------------------------------------------------------------------------------------

    @property
    def parts(self) -> list[Part]:
        """What leaves as a whole; the last one grows."""
        return self.beside.parts

    @property
    def takes_writes(self) -> bool:
        return not self._memory.is_full

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    def append(self, batches: Buffer, *, leader_epoch: int) -> int:
        self._check_healthy()
        pieces, placed = stamp(batches, base_offset := self.end_offset, leader_epoch)
        for number, batch in enumerate(placed):
            if self.parts[-1].is_over(batch, self.config, self._now_ms(), self.name, self._part_runs):
                self.roll()
            self._take(b"".join(pieces[2 * number : 2 * number + 2]), batch)
        if placed:
            self._epochs.assign(leader_epoch, base_offset)
        return base_offset

    def _take(self, batch: bytes, placed: Placed) -> None:
        self._here.window.append(batch, placed)
        self.parts[-1].take(placed)
        self.end_offset = placed.last_offset + 1
        self.bytes_written += placed.size_bytes
        self._memory.pending_bytes += placed.size_bytes

    def follow(self, tail: Stretch, next_offset: int) -> None:
        """Take over what its owner has committed behind the end, up to `next_offset`."""
        for batch, placed in zip(tail.batches, tail.placed, strict=True):
            self._take(batch, placed)
            self._epochs.assign(leader_epoch_at(batch), placed.base_offset)
        self.end_offset = self.durable_offset = next_offset
        self._here.committed(next_offset, tail.size_bytes)

    def _check_healthy(self) -> None:
        if self.failed:
            raise LogClosed(self.name) if self.closed else StorageFailed(f"{self.name} is another node's")

    def roll(self) -> None:
        if not self.parts[-1].batches:
            return
        self.parts.append(Part(self.end_offset, begun_ms=self._now_ms()))
        self.checkpoint_wanted = True
        for observer in self._observers:
            observer.segment_rolled(self.end_offset)

    # -- committing ------------------------------------------------------------------------------------------

    @property
    def is_flushing(self) -> bool:
        return self._flush is not None

    def begin_flush(self, *, closing: bool = False) -> SharedFlush | None:
        self._check_healthy()
        assert self._flush is None, "one flush at a time"
        replacement, self._replacement = self._replacement, None
        if replacement is not None and not replacement.take_over():
            replacement.done()
            replacement = None
        if replacement is not None:
            self.checkpoint_wanted = True  # Rule 2
        is_checkpoint = self.checkpoint_wanted or (closing and self._is_worth_writing_down())
        first_offset = self.parts[0].base_offset
        stands = (self.start_offset, first_offset) == (self.written_start, self._written_first)
        if self.durable_offset == self.end_offset and not is_checkpoint and stands:
            return None
        window = self._here.window
        begin = window.index_of(self.durable_offset)
        batches, placed = window.batches[begin:], window.placed[begin:]
        size_bytes = sum(one.size_bytes for one in placed)
        change = LogChange(
            self.owned.log_id,
            self.owned.owner_epoch,
            self.durable_offset,
            runs_of(self.durable_offset, self.end_offset, batches, placed, self._part_bases()) if placed else (),
            None if self.start_offset == self.written_start else self.start_offset,
            None if first_offset == self._written_first else first_offset,
            self._write_down(closing=closing) if is_checkpoint else None,
        )
        self._flush = SharedFlush(self.end_offset, change, batches, size_bytes, is_checkpoint)
        if replacement is not None:
            self._flush.replace(replacement)
        return self._flush

    def _is_worth_writing_down(self) -> bool:
        """At an orderly end: whether a start would have to compute anything."""
        writes = [observer.checkpoint_begins(closing=True) for observer in self._observers]
        for write in writes:
            if write is not None:
                write()
        for observer in self._observers:
            observer.checkpoint_ended()
        return self.recovery_point < self.end_offset or any(write is not None for write in writes)

    def _part_bases(self) -> list[int]:
        """Those of parts that were begun since the last commit: no run is of two."""
        return [part.base_offset for part in self.parts if part.base_offset > self.durable_offset]

    def _write_down(self, *, closing: bool) -> bytes:
        """Everything beside the log, as of its end."""
        self.checkpoint_wanted = False
        for observer in self._observers:
            observer.checkpoint_due(self.end_offset)
            if (write := observer.checkpoint_begins(closing=closing)) is not None:
                write()
            observer.checkpoint_ended()
        return self.beside.to_bytes(self.end_offset, self._epochs)

    def finish_flush(self, flush: Flush) -> None:
        assert isinstance(flush, SharedFlush) and self._flush is flush, "this flush is not the one under way"
        self._flush = None
        if flush.replacement is not None:
            flush.replacement.done()
        if self.closed:
            self._memory.pending_bytes -= flush.size_bytes
            return
        self.durable_offset = flush.end_offset
        if flush.is_checkpoint:
            self.recovery_point = flush.end_offset
        self.parts[-1].runs += len(flush.change.runs)
        if flush.change.start_offset is not None:
            self.written_start = flush.change.start_offset
        if flush.change.first_offset is not None:
            self._written_first = flush.change.first_offset
        self._here.committed(flush.end_offset, flush.size_bytes)
        if flush.change.replaced is not None:
            self._here.forget_before(flush.change.replaced[1] + 1)
            if self.source is not None:
                self.source.forget_before(flush.change.replaced[1] + 1)

    def put(self, replacement: Replacement) -> None:
        """Have it committed."""
        assert self._replacement is None, "compaction goes on once at a time"
        if self.failed:
            replacement.done()
            return
        self._replacement = replacement
        self.on_changed()

    def flush_now(self) -> int:
        """A commit is made with others, and waited for: what is durable is so without this."""
        return self.durable_offset

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True) -> list[Buffer]:
        return self.read_slice(offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one).batches

    def read_slice(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True, to_send: bool = False
    ) -> LogSlice:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange
        if offset >= min(end_offset, self.end_offset):
            return LogSlice([], offset)
        bounds = end_offset, self.end_offset
        return self._here.read(offset, max_bytes, *bounds, at_least_one=at_least_one, ask_for=self.ask_for)

    def away(self, offset: int) -> Awaitable[None] | None:
        is_here = offset >= self.end_offset or self.stretch_at(offset) is not None
        return None if is_here else self.ask_for(offset)

    @property
    def in_memory_from(self) -> int:
        """All that is behind is in memory, until it is wanted for something else."""
        return self._here.begins

    def stretch_at(self, offset: int) -> Stretch | None:
        """See `Resident.at`."""
        return self._here.at(offset)

    def ask_for(self, offset: int) -> Awaitable[None]:
        """Have what is at an offset brought."""
        assert self.source is not None, "what is not in memory is somewhere"
        return self.source.bring(offset)

    def arrived(self, offset: int, stretch: Stretch | LogDamaged) -> None:
        """What was asked for has come, with the batch that holds the offset, or is damaged there."""
        first_offset = self.parts[0].base_offset
        if not self.closed and first_offset <= offset < self.end_offset and self.stretch_at(offset) is None:
            self._here.arrived(offset, stretch)
            self.on_readable()

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
        return self._here.replay(from_offset)

    def offset_for_timestamp(self, timestamp_ms: int, *, end_offset: int, spent: Spent = never) -> Steps[Found]:
        return lookup.find_in_parts(timestamp_ms, self, end_offset=end_offset, spent=spent)

    def max_timestamp(self, spent: Spent = never) -> Steps[Found]:
        return lookup.newest_in_parts(self, spent)

    # -- shorter ---------------------------------------------------------------------------------------------

    def truncate(self, end_offset: int) -> None:
        """What is committed stays: nobody cuts that off."""
        assert end_offset >= self.durable_offset and self._flush is None
        window = self._here.window
        index = window.index_of(end_offset)
        if end_offset >= self.end_offset or index == len(window):
            return
        cut = window.placed[index:]
        window.drop_from(index)
        self.end_offset = max(self.durable_offset, cut[0].base_offset)
        self._memory.pending_bytes -= sum(one.size_bytes for one in cut)
        self._epochs.truncate_end(self.end_offset, log_start_offset=self.start_offset)
        for observer in self._observers:
            observer.truncated(self.end_offset)

    def trim(self, start_offset: int) -> None:
        if start_offset > self.end_offset:
            raise OffsetOutOfRange
        if start_offset <= self.start_offset:
            return
        self.start_offset = start_offset
        self.checkpoint_wanted = True  # Rule 2: what made it possible may be beside the log.
        self._epochs.truncate_start(start_offset)
        for observer in self._observers:
            observer.trimmed(start_offset)
        self.on_changed()

    def due_offset(self, now_ms: int, high_watermark: int) -> int:
        due = self._due(now_ms, high_watermark)
        return self.end_offset if due == len(self.parts) else self.parts[due].base_offset if due else 0

    def enforce_retention(self, now_ms: int, high_watermark: int) -> bool:
        due = 0 if self.failed or self._flush is not None else self._due(now_ms, high_watermark)
        if not due:
            return False
        if due == len(self.parts):
            self.roll()
        self.beside.drop_indexes([part.base_offset for part in self.parts[:due]])
        del self.parts[:due]
        self.checkpoint_wanted = True  # Rule 2, also where nothing is trimmed any more.
        self.trim(self.parts[0].base_offset)
        self.on_changed()
        return False

    def _due(self, now_ms: int, high_watermark: int) -> int:
        start_offset, end_offset = self.start_offset, self.end_offset
        return due_parts(
            self.parts,
            self.config,
            now_ms,
            start_offset=start_offset,
            end_offset=end_offset,
            high_watermark=min(high_watermark, self.durable_offset),
        )

    def free_space(self, now_ms: int) -> None:
        """The store does that."""

    def scrub(self, work: "Scrub") -> Steps[None]:
        """The store does that."""
        yield from ()

    # -- the rest --------------------------------------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        self.config = config

    def segment_bases(self) -> list[int]:
        return [part.base_offset for part in self.parts]

    def snapshots(self) -> SnapshotFiles:
        return self.beside.snapshots()

    def aborted_index(self) -> AbortedIndex:
        return self.beside.aborted_index()

    def compactor(self, derived: "Derived", *, report: Callable[[str], None]) -> SharedCompactor:
        return SharedCompactor(self, derived, report=report)

    def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        self.failed = self.closed = True
        if self.source is not None:
            self.source.close()
        self._observers, self.source = [], None
        self.on_readable = self.on_changed = _nothing
        if self._replacement is not None:
            self._replacement.done()
            self._replacement = None
        self._here.drop(self.durable_offset if self._flush is None else self._flush.end_offset)
