"""Batches of a log that are in memory, one behind the other: found by offset, read as a log is read."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from protocol.records.batch import BatchHeader, CorruptRecords, first_corrupt, headers_in, read_header
from protocol.schema import Buffer
from storage.log import LogSlice
from storage.segments.stamping import Placed

STRETCH_BYTES = 1 << 20
"""What is brought for a reader at a time, or one run where that is larger."""


class Stretch:
    """A list of batches without a gap but for what compaction has left out. Grows at its end, shrinks at either."""

    def __init__(self, batches: Sequence[bytes] = (), placed: Sequence[Placed] = ()) -> None:
        self.batches = list(batches)
        self.placed = list(placed)
        self.size_bytes = sum(batch.size_bytes for batch in self.placed)

    def __len__(self) -> int:
        return len(self.placed)

    def append(self, batch: bytes, placed: Placed) -> None:
        """The next one."""
        self.batches.append(batch)
        self.placed.append(placed)
        self.size_bytes += placed.size_bytes

    def extend(self, other: "Stretch") -> None:
        """The next ones."""
        self.batches += other.batches
        self.placed += other.placed
        self.size_bytes += other.size_bytes

    def index_of(self, offset: int) -> int:
        """Of the first batch whose last offset is `offset` or more."""
        return bisect_left(self.placed, offset, key=lambda batch: batch.last_offset)

    def read(self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool) -> LogSlice:
        """See `storage.log.Log.read_slice`: as far as it is here."""
        found: list[Buffer] = []
        size, next_offset = 0, offset
        for index in range(self.index_of(offset), len(self.placed)):
            batch = self.placed[index]
            if batch.last_offset >= end_offset:
                break
            if size + batch.size_bytes > max_bytes and not (at_least_one and not found):
                break
            found.append(self.batches[index])
            size += batch.size_bytes
            next_offset = batch.last_offset + 1
        return LogSlice(found, next_offset)

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
        """See `storage.log.Log.replay`."""
        for batch in islice(self.batches, self.index_of(from_offset), None):
            header = read_header(batch)
            yield header, batch if header.is_control else None

    def drop_first(self, count: int) -> int:
        """Forget the oldest; returns how many bytes that were."""
        size_bytes = sum(batch.size_bytes for batch in self.placed[:count])
        self.size_bytes -= size_bytes
        del self.batches[:count], self.placed[:count]
        return size_bytes

    def drop_from(self, index: int) -> None:
        """Forget those from `index` on."""
        self.size_bytes -= sum(batch.size_bytes for batch in self.placed[index:])
        del self.batches[index:], self.placed[index:]


def stretch_of(pieces: Iterable[bytes]) -> Stretch:
    """The batches in some bytes, each piece whole batches. Raises `CorruptRecords` where they are not what an append
    has made of them."""
    stretch = Stretch()
    for piece in pieces:
        if first_corrupt(piece) is not None:
            raise CorruptRecords("a checksum is wrong")
        for position, header in headers_in(piece):
            placed = Placed(header.base_offset, header.last_offset, header.size, header.max_timestamp)
            stretch.append(piece[position : position + header.size], placed)
    return stretch
