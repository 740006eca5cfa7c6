"""Reading a segment: from an offset to a position, and whole batches from there, by their headers alone.

Rule. A reader gets what lies before a damage, and `LogDamaged` where it begins: never less without a word, never what
lies behind it in its stead. A broken header is noticed in passing; checksums are the affair of `storage.scrub`, and of
the client.
"""

from protocol.records.batch import HEADER_SIZE
from storage.files import File
from storage.log import BEYOND_ALL_OFFSETS, LogDamaged, LogSlice
from storage.segments.segment_format import BATCH_EXTENT, LENGTH_END, LOG
from storage.segments.sparse_index import Entry, SparseIndex

LOCATE_BYTES = 8192
LEFT_IN_FILE_BYTES = 64 << 10
"""From how much on what is to be sent is not read here: below, one read is cheaper than looking for its end."""
MANY_BATCHES = 64
"""From how many batches on a read asks the index where it may end, instead of stepping over each."""
EXTENT = BATCH_EXTENT.size
LEAST_LENGTH = HEADER_SIZE - LENGTH_END
"""What the length field of a batch says at least; less is damage."""
OFFSET, POSITION = 0, 1
"""Columns of the offset index."""
BEFORE_ITS_BYTES = -1
"""The position of a damage that lies before a segment, at none of its own."""


class SegmentReading:
    """The part of a segment that its readers use."""

    base_offset: int
    path: str
    log: File
    size_bytes: int
    damage: dict[int, LogDamaged]
    """What is known to be damaged, by position."""
    _unreadable: LogDamaged | None = None

    end_is_known = False
    """Of a final segment: whether its end has been looked at (`storage.segment_ends`)."""
    ends_at = BEYOND_ALL_OFFSETS
    """Where its offsets end, if that is before the next segment begins."""
    is_indexed_anew = False
    """Whether its indexes were found wrong already: it helps once."""

    @property
    def offset_index(self) -> SparseIndex:
        raise NotImplementedError

    def rebuild_indexes(self) -> None:
        raise NotImplementedError

    def index_anew(self) -> None:
        """Make the indexes again: an entry was met that cannot be right, or entries are missing. Raises `OSError`; then
        whoever meets that next tries once more."""
        self.rebuild_indexes()
        self.is_indexed_anew = True

    def _is_right(self, entry: Entry, block: bytes) -> bool:
        """Whether the batch that an entry of the offset index leads to, of which a block is the beginning, is that of
        the entry: a wrong one would lead past records, or into the middle of some."""
        if len(block) < EXTENT:
            return False
        base_offset, _, last_offset_delta = BATCH_EXTENT.unpack_from(block)
        return bool(base_offset + last_offset_delta == self.base_offset + entry[OFFSET])

    def locate(self, offset: int) -> int:
        """The position of the first batch whose last offset is `offset` or more; the end where there is none."""
        entry = self.offset_index.floor(OFFSET, offset - self.base_offset)
        position, expected = entry[1] if entry is not None else 0, self.base_offset
        while position < self.size_bytes:
            block = self.log.read(position, min(LOCATE_BYTES, self.size_bytes - position))
            if entry is not None and not self.is_indexed_anew and not self._is_right(entry, block):
                self.index_anew()
                return self.locate(offset)
            at, entry = 0, None
            while at + EXTENT <= len(block):
                base_offset, length, last_offset_delta = BATCH_EXTENT.unpack_from(block, at)
                if length < LEAST_LENGTH:
                    raise self.damaged(position + at, expected, "no batch has such a header")
                if base_offset + last_offset_delta >= offset:
                    return position + at
                if position + at + LENGTH_END + length > self.size_bytes:
                    raise self.damaged(position + at, expected, "the file ends within a batch")
                at += LENGTH_END + length
                expected = base_offset + last_offset_delta + 1
            if at == 0:
                raise self.damaged(position, expected, "the file ends within a batch")
            position += at
        return self.size_bytes

    def read(
        self,
        position: int,
        max_bytes: int,
        offset: int,
        own_end: int,
        end_offset: int,
        *,
        at_least_one: bool,
        to_send: bool = False,
    ) -> tuple[LogSlice, int]:
        """Whole batches from a position on, and the position after them. `own_end`: where the segment's offsets end."""
        size = min(max_bytes, self.size_bytes - position)
        if self.damage:
            end_offset, size = self._before_damage(position, offset, end_offset, size)
        if to_send and size >= LEFT_IN_FILE_BYTES:
            end, next_offset = self._whole_batches(position, size, offset, own_end, end_offset)
            if end == position and at_least_one:
                end, next_offset = self._first_batch(position, offset, end_offset)
            if end > position:
                return LogSlice([self.log.read_to_send(position, end - position)], next_offset), end
        block = self.log.read(position, max(size, min(HEADER_SIZE, self.size_bytes - position)))
        base_offset, length, last_offset_delta = self._extent(block, position, offset)
        if base_offset + last_offset_delta >= end_offset:
            if base_offset + last_offset_delta >= own_end:
                raise self.damaged(position, offset, "its offsets lie behind the segment's end")
            return LogSlice([], offset), position
        first_size = LENGTH_END + length
        if first_size > max_bytes:
            if not at_least_one:
                return LogSlice([], offset), position
            block = self.log.read(position, first_size)
            if len(block) < first_size:
                raise self.damaged(position, offset, "the file ends within a batch")
            return LogSlice([block], base_offset + last_offset_delta + 1), position + first_size
        if position + len(block) == self.size_bytes and own_end <= end_offset:
            return LogSlice([block], own_end), self.size_bytes
        return self._walk(block, position, first_size, offset, end_offset)

    def _walk(self, block: bytes, position: int, first_size: int, offset: int, end_offset: int) -> tuple[LogSlice, int]:
        """The whole batches of a block below `end_offset`, and the position after them."""
        at, next_offset = 0, offset
        if len(block) >= MANY_BATCHES * first_size and (jump := self._jump(position, len(block), end_offset)):
            at, next_offset = jump, BATCH_EXTENT.unpack_from(block, jump)[0]
        while at + EXTENT <= len(block):
            base_offset, length, last_offset_delta = BATCH_EXTENT.unpack_from(block, at)
            end, last_offset = at + LENGTH_END + length, base_offset + last_offset_delta
            if end > len(block) or last_offset >= end_offset or length < LEAST_LENGTH:
                break
            at, next_offset = end, last_offset + 1
        whole = block if at == len(block) else memoryview(block)[:at]
        return LogSlice([whole], next_offset), position + at

    def _whole_batches(self, position: int, size: int, offset: int, own_end: int, end_offset: int) -> tuple[int, int]:
        """Where the last whole batch ends within `size` bytes and below `end_offset`: position and offset. Reads
        nothing but headers."""
        end = position + size
        if end == self.size_bytes and own_end <= end_offset:
            return end, own_end
        jump = self._jump(position, size, end_offset)
        at, next_offset, known = position + jump, offset, not jump
        while at < end:
            block, inside = self.log.read(at, min(LOCATE_BYTES, self.size_bytes - at)), 0
            while inside + EXTENT <= len(block):
                base_offset, length, last_offset_delta = BATCH_EXTENT.unpack_from(block, inside)
                if not known:
                    next_offset, known = base_offset, True
                if length < LEAST_LENGTH:
                    return at + inside, next_offset
                stop = at + inside + LENGTH_END + length
                if stop > end or base_offset + last_offset_delta >= end_offset:
                    return at + inside, next_offset
                inside, next_offset = stop - at, base_offset + last_offset_delta + 1
            if not inside:
                break  # The file has become shorter.
            at += inside
        return at, next_offset

    def _first_batch(self, position: int, offset: int, end_offset: int) -> tuple[int, int]:
        """Where the batch at `position` ends, whatever its size, if it lies below `end_offset`: position and offset."""
        base_offset, length, last_offset_delta = self._extent(self.log.read(position, EXTENT), position, offset)
        if base_offset + last_offset_delta >= end_offset:
            return position, offset
        end = position + LENGTH_END + length
        if end > self.size_bytes:
            raise self.damaged(position, offset, "the file ends within a batch")
        return end, base_offset + last_offset_delta + 1

    def _extent(self, block: bytes, position: int, offset: int) -> tuple[int, int, int]:
        """The extent of the batch that a block begins with. Raises `LogDamaged` where it is none."""
        if len(block) < EXTENT:
            raise self.damaged(position, offset, "the file ends within a batch")
        extent = BATCH_EXTENT.unpack_from(block)
        if extent[1] < LEAST_LENGTH:
            raise self.damaged(position, offset, "no batch has such a header")
        return extent

    def unreadable(self, error: OSError) -> LogDamaged:
        """What is raised where a file of the segment cannot be opened or read just now; always the same."""
        if self._unreadable is None:
            self._unreadable = LogDamaged(f"{self.path}.*", None, self.base_offset, f"a file cannot be read: {error}")
        return self._unreadable.with_traceback(None)

    def damaged(self, position: int, offset: int, reason: str, next_offset: int = BEYOND_ALL_OFFSETS) -> LogDamaged:
        """What is raised of the damage at `position`, always the same: it is remembered."""
        if position not in self.damage:
            self.damage[position] = LogDamaged(f"{self.path}{LOG}", position, offset, reason, next_offset)
        return self.damage[position].with_traceback(None)

    def lies_behind_gap(self, offset: int) -> bool:
        """Whether `offset` is one of those missing before this segment. One without batches has to be read, too, to say
        so: who reads nothing takes that for the end of the log."""
        return offset < self.base_offset and BEFORE_ITS_BYTES in self.damage

    def _before_damage(self, position: int, offset: int, end_offset: int, size: int) -> tuple[int, int]:
        """How far one may read from an offset on: up to which offset, and how many bytes. Raises `LogDamaged` where
        that lies within a damage."""
        for place, damaged in self.damage.items():
            if damaged.offset <= offset < damaged.next_offset or place == position:
                raise damaged.with_traceback(None)
            if damaged.offset > offset:
                end_offset = min(end_offset, damaged.offset)
            if place > position:
                size = min(size, place - position)
        return end_offset, size

    def _jump(self, position: int, size: int, end_offset: int) -> int:
        """How far a batch start near the end of what is read lies from `position`, by the index: so that not every
        small batch is stepped over."""
        by_position = self.offset_index.floor(POSITION, position + size - EXTENT)
        by_offset = self.offset_index.floor(OFFSET, end_offset - 1 - self.base_offset)
        if by_position is None or by_offset is None:
            return 0
        entry = min(by_position, by_offset)
        jump = entry[POSITION] - position
        return jump if jump > 0 and self._is_right(entry, self.log.read(entry[POSITION], EXTENT)) else 0
