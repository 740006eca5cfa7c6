"""One segment: a file of batches with its offset index and its time index.

It knows what is in its bytes and where; which segment is active, what is durable and what readers may see is the
log's affair. Positions are bytes in the `.log` file. Indexes are looked at, and rebuilt where they cannot be right, on
first use.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final
from zlib import crc32

from protocol.records.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from protocol.schema import Buffer
from storage.files import File, Files
from storage.log import LogConfig, LogDamaged
from storage.segments.segment_format import (
    BATCH_EXTENT,
    INDEX,
    LARGEST_RELATIVE_OFFSET,
    LENGTH_END,
    LOG,
    OFFSET_ENTRY,
    TIME_ENTRY,
    TIME_INDEX,
    file_name,
)
from storage.segments.segment_reading import EXTENT, OFFSET, POSITION, SegmentReading
from storage.segments.sparse_index import SparseIndex
from storage.segments.stamping import Placed

SCAN_BYTES = 1 << 20
INDEX_BEHIND_BYTES: Final = 1 << 20
"""How much of the log may be ahead of the index files: what has to be checked after a kill."""


class Segment(SegmentReading):
    """See the head of this file."""

    def __init__(
        self,
        files: Files,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        log: File | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.path = f"{folder}/{file_name(base_offset, '')}"
        self.log: File = files.open(self.path + LOG, create=True) if log is None else log
        self.size_bytes = self.log.size()
        self._files = files
        self._config = config
        self._offset_index: SparseIndex | None = None
        self._time_index: SparseIndex | None = None
        self._is_half_indexed = False
        """Making the indexes anew has failed."""
        self._bytes_since_entry = 0
        self._bytes_since_written_out = 0
        self._newest: tuple[int, int] | None = None
        self._first_timestamp_ms: int | None = None
        self.damage: dict[int, LogDamaged] = {}

    def open_indexes(self) -> "Segment":
        """Open both index files and rebuild them if one is missing or cannot be right; gives the segment itself. Raises
        `OSError`: who has just made the segment, for writing, cannot go on without them."""
        missing = not (self._files.exists(self.path + INDEX) and self._files.exists(self.path + TIME_INDEX))
        limit = self._config.segment_index_bytes
        opened = [self._files.open(self.path + suffix, create=True) for suffix in (INDEX, TIME_INDEX)]
        # Recovery starts at the last offset entry and takes earlier timestamps as known: the time index goes first.
        times = SparseIndex(opened[1], TIME_ENTRY, max_bytes=limit)
        self._offset_index = SparseIndex(opened[0], OFFSET_ENTRY, max_bytes=limit, never_before=times)
        self._time_index = times
        if (missing and self.size_bytes > 0) or self._is_half_indexed or not self._indexes_are_sane():
            self.rebuild_indexes()
        return self

    def indexed_by(self, offsets: SparseIndex, times: SparseIndex) -> None:
        """Its indexes were written beside it just now."""
        self._offset_index, self._time_index = offsets, times

    def _indexes_are_sane(self) -> bool:
        offsets, times = self.offset_index, self.time_index
        if offsets.is_torn or times.is_torn:
            return False
        if times.last is not None and (times.last[0] < 0 or times.last[1] < 0):
            return False
        if len(times) > 1 and times.last == (0, 0):
            return False
        if offsets.last is None:
            return True
        relative, position = offsets.last
        # Kafka preallocates its indexes with zeros: after a kill the last entry is one of them.
        if relative <= 0 or not 0 < position <= self.size_bytes - HEADER_SIZE:
            return False
        base_offset, _, last_offset_delta = BATCH_EXTENT.unpack(self.log.read(position, EXTENT))
        return bool(base_offset + last_offset_delta == self.base_offset + relative)

    @property
    def offset_index(self) -> SparseIndex:
        if self._offset_index is None:
            self._open_to_read()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> SparseIndex:
        if self._time_index is None:
            self._open_to_read()
        assert self._time_index is not None
        return self._time_index

    def _open_to_read(self) -> None:
        """Raises `LogDamaged` where something else stands in the place of an index, or it cannot be read; then they are
        opened, looked at and made anew by whoever comes next."""
        try:
            self.open_indexes()
        except OSError as error:
            for index in (self._offset_index, self._time_index):
                if index is not None:
                    index.close()
            self._offset_index = self._time_index = None
            raise self.unreadable(error) from error

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """(timestamp, last offset of the batch that brought it); (-1, base offset) while there is none."""
        if self._newest is None:
            entry = self.time_index.last
            self._newest = (-1, self.base_offset) if entry is None else (entry[0], self.base_offset + entry[1])
        return self._newest

    @property
    def first_timestamp_ms(self) -> int:
        """The first batch's largest timestamp, which gives the segment's age; -1 while it is empty. Raises
        `LogDamaged`."""
        if self._first_timestamp_ms is None:
            if self.size_bytes < HEADER_SIZE:
                return -1
            try:
                self._first_timestamp_ms = read_header(self.log.read(0, HEADER_SIZE)).max_timestamp
            except OSError as error:
                raise self.unreadable(error) from error
        return self._first_timestamp_ms

    def has_room(
        self, size_bytes: int, last_offset: int, timestamp_ms: int, now_ms: Callable[[], int], roll_after_ms: int
    ) -> bool:
        """Whether an append still belongs here: Kafka's `LogSegment.shouldRoll`, the other way round."""
        if last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET:
            return False
        if self.size_bytes == 0:
            return True
        if self.size_bytes + size_bytes > self._config.segment_bytes:
            return False
        offsets, times = self._offset_index, self._time_index
        assert offsets is not None and times is not None, "those of the active segment are open"
        if offsets.is_full or times.is_full:
            return False
        first = self._first_timestamp_ms
        if first is None:
            try:
                first = self.first_timestamp_ms
            except LogDamaged:
                first = -1  # How old it is can be asked again: that is no reason to refuse a write.
        age_ms = timestamp_ms - first if first >= 0 else now_ms() - self.created_ms
        return age_ms <= roll_after_ms

    def append(self, parts: Sequence[Buffer], placed: Sequence[Placed]) -> None:
        """Write, then index. On `OSError` nothing is indexed and the file may be longer than `size_bytes`."""
        self.log.append(parts)
        for batch in placed:
            self.note(batch)
        if self._bytes_since_written_out >= INDEX_BEHIND_BYTES:
            self.write_out_indexes()

    def note(self, batch: Placed) -> None:
        """A batch stands at the end of the file: index it and count it in."""
        last_offset, size_bytes, max_timestamp_ms = batch.last_offset, batch.size_bytes, batch.max_timestamp_ms
        if max_timestamp_ms > (self._newest or self.largest_timestamp)[0]:
            self._newest = (max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self._note_time()
            self.offset_index.append(last_offset - self.base_offset, self.size_bytes)
            self._bytes_since_entry = 0
        self.size_bytes += size_bytes
        self._bytes_since_entry += size_bytes
        self._bytes_since_written_out += size_bytes

    def _note_time(self) -> None:
        timestamp_ms, offset = self.largest_timestamp
        last = self.time_index.last
        if timestamp_ms >= 0 and (last is None or timestamp_ms > last[0]):
            self.time_index.append(timestamp_ms, offset - self.base_offset)

    def write_out_indexes(self) -> None:
        self.offset_index.write_out()  # and the time index before it
        self._bytes_since_written_out = 0

    def finish(self) -> None:
        """No longer the active segment: the time index gets the final word, so that it need not be searched for."""
        self._note_time()
        self.write_out_indexes()

    def batches(
        self, position: int, *, check: bool = False, read_bytes: int = SCAN_BYTES
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """(position, header, bytes) of each batch, with few large reads. Stops before what is no whole batch or goes
        back in offsets; with `check`, before the first that fails its CRC as well."""
        size, expected = self.log.size(), self.base_offset
        block, start = b"", position
        while position + HEADER_SIZE <= size:
            at = position - start
            if at + HEADER_SIZE > len(block):
                block, start, at = self.log.read(position, read_bytes), position, 0
                if len(block) < HEADER_SIZE:
                    return
            header = read_header(block, at)
            batch_size = LENGTH_END + header.batch_length
            if batch_size < HEADER_SIZE or position + batch_size > size:
                return
            if at + batch_size > len(block):
                block, start, at = self.log.read(position, max(read_bytes, batch_size)), position, 0
            if header.magic != 2 or header.base_offset < expected or header.last_offset_delta < 0:
                return
            if header.last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET:
                return
            if check and not check_crc(block, at, header):
                return
            yield position, header, memoryview(block)[at : at + batch_size]
            position += batch_size
            expected = header.base_offset + header.last_offset_delta + 1

    def all_batches(self, position: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """As `batches`, to the very end of the segment. Raises `LogDamaged` where they end before."""
        end, offset = position, self.base_offset
        for found in self.batches(position):
            end, offset = found[0] + found[1].size, found[1].next_offset
            yield found
        if end < self.size_bytes:
            raise self.damaged(end, offset, "there is no whole batch")

    def rebuild_indexes(self) -> None:
        """Make both indexes again from the batches. What lies behind a damaged one is not indexed. On `OSError` some
        entries are missing, and nothing else."""
        size, newest = self.size_bytes, self._newest
        self._is_half_indexed = True
        try:
            self._restart(0)
            for _, header, _ in self.batches(0):
                self.note(placed_by(header))
        except OSError:
            self._newest = newest
            raise
        finally:
            self.size_bytes = max(self.size_bytes, size)
        self.finish()
        self._is_half_indexed = False

    def recover(self, from_offset: int) -> Iterator[BatchHeader]:
        """Check every batch from the last index entry below `from_offset` on, and index it.

        Yields the headers. Once exhausted, size and indexes are those of the batches that were yielded or skipped; the
        file may be longer (`cut`).
        """
        # Of a batch that begins at `from_offset` the entry may be on the disk, and the time entry before it not.
        entry = self.offset_index.floor(OFFSET, from_offset - 1 - self.base_offset)
        position = entry[1] if entry is not None else 0
        if entry is not None and position:
            first = next(self.batches(position, check=True), None)
            if first is None or first[1].last_offset - self.base_offset != entry[0]:
                # The very batch the index leads to is damaged: only the beginning of the file is left to go by.
                position = 0
        self._restart(position)
        for _, header, _ in self.batches(self.size_bytes, check=True):
            self.note(placed_by(header))
            yield header
        self.write_out_indexes()

    def cut(self) -> None:
        """Cut off what `recover` has found to be no batch. On the disk when this returns: after the next crash nobody
        looks here again, if the log goes on in another segment."""
        self.log.truncate(self.size_bytes)
        self.log.sync()

    def write_again(self, from_offset: int) -> None:
        """Write what stands from `from_offset` on over itself: after a sync that failed, its pages pass for clean."""
        entry = self.offset_index.floor(OFFSET, from_offset - self.base_offset)
        position = entry[1] if entry is not None else 0
        while position < self.size_bytes:
            block = self.log.read(position, min(SCAN_BYTES, self.size_bytes - position))
            self.log.write_at(position, block)
            position += len(block)

    def _restart(self, position: int) -> None:
        """Take the batches from `position` on as not yet noted; all of them where the index before cannot be right."""
        if position == 0:
            self.offset_index.clear()
            self.time_index.clear()
        else:
            first_offset = BATCH_EXTENT.unpack(self.log.read(position, EXTENT))[0]
            self.offset_index.keep_below(OFFSET, first_offset - self.base_offset)
            self.time_index.keep_below(1, first_offset - self.base_offset)
        entry = self.offset_index.last
        if entry is not None and entry[1] >= position:
            self._restart(0)
            return
        # As if the batch at `position` were the first after an entry was due: it gets its entry back.
        self._bytes_since_entry = 0 if position == 0 else self._config.index_interval_bytes + 1
        self._newest = None
        self._first_timestamp_ms = None
        self.size_bytes = position

    def truncate(self, position: int) -> None:
        """Cut the file at a batch boundary."""
        end = self.offset_index.floor(POSITION, position - 1) if position else None
        self.log.truncate(position)
        self._restart(end[1] if end is not None else 0)
        for _, header, _ in self.batches(self.size_bytes):
            self.note(placed_by(header))

    def indexes(self) -> list[SparseIndex]:
        return [self.offset_index, self.time_index]

    def file_bytes(self) -> tuple[int, int, int]:
        """What log, offset index and time index have in their files now; of a segment that is written to."""
        offsets, times = self._offset_index, self._time_index
        assert offsets is not None and times is not None, "those of the active segment are open"
        return self.size_bytes, offsets.written_bytes, times.written_bytes

    def configure(self, config: LogConfig) -> None:
        self._config = config

    def close(self) -> None:
        self.log.close()
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()


def placed_by(header: BatchHeader) -> Placed:
    """What a header says of its batch, in the form that an append has it."""
    last_offset = header.base_offset + header.last_offset_delta
    return Placed(header.base_offset, last_offset, LENGTH_END + header.batch_length, header.max_timestamp)


def roll_age_ms(config: LogConfig, folder: str, base_offset: int) -> int:
    """segment.ms less a share of segment.jitter.ms, so that a thousand partitions do not roll together. Where a log is
    compacted, not later than max.compaction.lag.ms: the active segment is never compacted (KIP-354)."""
    jitter_ms = config.segment_jitter_ms
    share = crc32(f"{folder}/{base_offset}".encode()) % jitter_ms if jitter_ms > 0 else 0
    longest_ms = config.segment_ms
    if config.cleanup_compact and config.max_compaction_lag_ms > 0:
        longest_ms = min(longest_ms, config.max_compaction_lag_ms)
    return longest_ms - share
