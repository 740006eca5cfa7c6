"""A log in memory: the oracle that `SegmentLog` is compared with, and the log of tests and simulations.

As plain as it can be: a list of batches. It has the observable behaviour of the one on disk, flush
included (what was not flushed is not durable), but nothing to recover.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from protocol.records.batch import BatchHeader
from protocol.schema import Buffer
from storage.epochs import EpochCache
from storage.log import (
    CHECKPOINT_BATCHES,
    CHECKPOINT_BYTES,
    AllHere,
    Flush,
    LogConfig,
    LogObserver,
    LogSlice,
    OffsetOutOfRange,
)
from storage.lookup import Found, Unreadable, first_record_at_or_after, largest_timestamp
from storage.producers.aborted import AbortedIndex
from storage.segments.stamping import Placed, leader_epoch_at, stamp
from storage.steps import Spent, Steps, never
from storage.stretch import Stretch

if TYPE_CHECKING:
    from storage.cleaner.compactor import Derived
    from storage.scrub import Scrub

BATCHES_PER_SLICE = 1_000
"""How many are given up in one go."""


@dataclass(slots=True)
class MemoryFlush:
    """Nothing to sync: `run` returns at once."""

    end_offset: int

    @property
    def shares_commits(self) -> bool:
        """See `storage.log.Log`."""
        return False

    def run(self) -> None:
        """There is no disk."""


class MemoryLog(AllHere):
    """See `storage.log.Log` for the contract of every method."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.config = config or LogConfig()
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0
        self.bytes_written = 0
        self.unreadable = Unreadable("the log in memory")
        self._kept = Stretch()
        self._epochs = EpochCache()
        self._observers: list[LogObserver] = []
        self._flush: MemoryFlush | None = None
        self._bytes_since_checkpoint = 0
        self._batches_since_checkpoint = 0

    def append(self, batches: Buffer, *, leader_epoch: int) -> int:
        base_offset = self.end_offset
        parts, placed = stamp(batches, base_offset, leader_epoch)
        self._extend([b"".join(parts[i : i + 2]) for i in range(0, len(parts), 2)], placed)
        return base_offset

    def _extend(self, pieces: list[bytes], placed: list[Placed]) -> None:
        if not placed:
            return
        assert placed[0].base_offset >= self.end_offset, "offsets only grow"
        self._maybe_checkpoint()
        for piece, batch in zip(pieces, placed, strict=True):
            self._kept.append(piece, batch)
            self._epochs.assign(leader_epoch_at(piece), batch.base_offset)
            self.bytes_written += batch.size_bytes
            self._bytes_since_checkpoint += batch.size_bytes
        self._batches_since_checkpoint += len(placed)
        self.end_offset = placed[-1].last_offset + 1

    def _maybe_checkpoint(self) -> None:
        if self._bytes_since_checkpoint >= CHECKPOINT_BYTES or self._batches_since_checkpoint >= CHECKPOINT_BATCHES:
            self._bytes_since_checkpoint = self._batches_since_checkpoint = 0
            for observer in self._observers:
                observer.checkpoint_due(self.end_offset)

    @property
    def recovery_point(self) -> int:
        """Nothing is to be recovered, and nothing is left to recover it from."""
        return 0

    @property
    def size_bytes(self) -> int:
        return self._kept.size_bytes

    @property
    def checkpoint_wanted(self) -> bool:
        return False

    @property
    def is_flushing(self) -> bool:
        return self._flush is not None

    def begin_flush(self, *, closing: bool = False) -> MemoryFlush | None:
        assert self._flush is None, "one flush at a time"
        if self.durable_offset == self.end_offset:
            return None
        self._flush = MemoryFlush(self.end_offset)
        return self._flush

    def finish_flush(self, flush: Flush) -> None:
        assert self._flush is flush
        self._flush = None
        self.durable_offset = max(self.durable_offset, flush.end_offset)

    def flush_now(self) -> int:
        if (flush := self.begin_flush()) is not None:
            flush.run()
            self.finish_flush(flush)
        return self.durable_offset

    def read(self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True) -> list[Buffer]:
        return self.read_slice(offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one).batches

    def read_slice(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True, to_send: bool = False
    ) -> LogSlice:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange
        return self._kept.read(offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one)

    def truncate(self, end_offset: int) -> None:
        if end_offset >= self.end_offset:
            return
        index = self._kept.index_of(end_offset)
        if index < len(self._kept):
            end_offset = min(end_offset, self._kept.placed[index].base_offset)
        self._kept.drop_from(index)
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, end_offset)
        self._epochs.truncate_end(end_offset, log_start_offset=self.start_offset)
        for observer in self._observers:
            observer.truncated(end_offset)

    def roll(self) -> None:
        """Each batch leaves by itself."""

    def trim(self, start_offset: int) -> None:
        if start_offset > self.end_offset:
            raise OffsetOutOfRange
        if start_offset <= self.start_offset:
            return
        self.start_offset = start_offset
        self._epochs.truncate_start(start_offset)
        for observer in self._observers:
            observer.trimmed(start_offset)

    def due_offset(self, now_ms: int, high_watermark: int) -> int:
        """Nothing is ever written down."""
        return 0

    def enforce_retention(self, now_ms: int, high_watermark: int) -> bool:
        """Batch by batch, where the log on disk goes by segments. A batch without a timestamp is as old as what follows
        it: only its size counts."""
        config, count = self.config, 0
        oldest_ms = now_ms - config.retention_ms if config.cleanup_delete and config.retention_ms >= 0 else -1
        excess_bytes = self.size_bytes - config.retention_bytes
        if not config.cleanup_delete or config.retention_bytes < 0:
            excess_bytes = -1
        for batch in islice(self._kept.placed, BATCHES_PER_SLICE):
            last_offset = batch.last_offset
            excess_bytes -= batch.size_bytes
            is_old = 0 <= batch.max_timestamp_ms < oldest_ms
            if last_offset >= high_watermark or not (is_old or excess_bytes >= 0 or last_offset < self.start_offset):
                break
            count += 1
        if count:
            start_offset = self._kept.placed[count - 1].last_offset + 1
            self._kept.drop_first(count)
            self.trim(start_offset)
        return count == BATCHES_PER_SLICE

    def free_space(self, now_ms: int) -> None:
        """It is free at once."""

    def scrub(self, work: "Scrub") -> Steps[None]:
        yield from ()

    def offset_for_timestamp(self, timestamp_ms: int, *, end_offset: int, spent: Spent = never) -> Steps[Found]:
        start_offset, bounds = self.start_offset, self.config.decompression
        return first_record_at_or_after(
            timestamp_ms,
            list(self._kept.batches),
            start_offset=start_offset,
            end_offset=end_offset,
            bounds=bounds,
            spent=spent,
            unreadable=self.unreadable,
        )

    def max_timestamp(self, spent: Spent = never) -> Steps[Found]:
        remaining = self._kept.batches[self._kept.index_of(self.start_offset) :]
        bounds = self.config.decompression
        largest = yield from largest_timestamp(remaining, self.start_offset, bounds, spent, self.unreadable)
        if largest < 0:
            return None
        return (yield from self.offset_for_timestamp(largest, end_offset=self.end_offset, spent=spent))

    def configure(self, config: LogConfig) -> None:
        self.config = config

    def segment_bases(self) -> list[int]:
        return [self.start_offset]

    def snapshots(self) -> None:
        return None

    def aborted_index(self) -> AbortedIndex:
        return AbortedIndex(None, "", self.segment_bases())

    def compactor(self, derived: "Derived", *, report: Callable[[str], None]) -> None:
        return None

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
        return self._kept.replay(from_offset)

    def close(self) -> None:
        self.flush_now()

    def abandon(self) -> None:
        """There is nothing to close."""
        self._observers = []  # they refer to this log: freed at once, and not by the collector
