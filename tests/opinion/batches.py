"""Record batches as they stand in requests and responses."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from protocol.records.batch import HEADER_SIZE, BatchHeader, CorruptRecords, check_crc, read_header
from protocol.records.control import read_end_transaction
from protocol.records.record import Record, records_of

LENGTH_AT = 8
BEHIND_LENGTH = 12
BEHIND_EPOCH = 16
"""From here on a batch is the same wherever it stands."""


class Batch(NamedTuple):
    """One batch: `base` is the offset of its first record, `data` all its bytes."""

    base: int
    header: BatchHeader
    data: bytes
    commit: bool | None = None
    """Of a marker: whether it commits."""

    @property
    def next(self) -> int:
        return self.base + self.header.last_offset_delta + 1

    @property
    def body(self) -> bytes:
        return self.data[BEHIND_EPOCH:]

    @property
    def size(self) -> int:
        return len(self.data)

    def at(self, base: int) -> "Batch":
        """The same batch at another offset."""
        return self._replace(base=base)

    def records(self) -> list[Record]:
        """Offsets are those of the batch's own bytes."""
        return list(records_of(self.data))


def joined(records: Any) -> bytes:
    """The bytes of a field of records."""
    if records is None:
        return b""
    if isinstance(records, Sequence) and not isinstance(records, bytes | bytearray | memoryview):
        return b"".join(bytes(part) for part in records)
    return bytes(records)


def batches_in(data: bytes, read: dict[bytes, Batch] | None = None) -> Iterator[Batch]:
    """Every whole batch; what is cut off at the end is not one. `read`: those that were sound before, by all their
    bytes. Raises `CorruptRecords`."""
    position = 0
    read = {} if read is None else read
    while position + HEADER_SIZE <= len(data):
        length = int.from_bytes(data[position + LENGTH_AT : position + BEHIND_LENGTH], signed=True)
        if known := read.get(data[position : position + BEHIND_LENGTH + length]):
            yield known
            position += known.size
            continue
        header = read_header(data, position)
        if header.batch_length < HEADER_SIZE - BEHIND_LENGTH:
            raise CorruptRecords(f"a batch of {header.batch_length} bytes")
        if position + header.size > len(data):
            return
        if not check_crc(data, position, header):
            raise CorruptRecords(f"a wrong checksum at {position}")
        own = data[position : position + header.size]
        marker = read_end_transaction(own) if header.is_control else None
        read[own] = found = Batch(header.base_offset, header, own, None if marker is None else marker.commit)
        yield found
        position += header.size


def sound_batch(data: bytes) -> Batch | None:
    """The batch of a Produce, if it is a single one that a broker takes; None otherwise."""
    try:
        found = list(batches_in(data))
        if len(found) != 1 or found[0].size != len(data):
            return None
        header = found[0].header
        sound = (
            header.magic == 2
            and header.base_offset == 0
            and not header.is_control
            and header.records_count == header.last_offset_delta + 1 > 0
            and (header.producer_id < 0 or header.base_sequence >= 0)
        )
        records = found[0].records() if sound else []
    except CorruptRecords:
        return None
    return found[0] if sound and [one.offset for one in records] == list(range(len(records))) else None


def same_sequences(one: Batch, two: Batch) -> bool:
    """Whether a broker takes one for a repetition of the other; it does not look at the records."""
    fields = ("last_offset_delta", "producer_id", "producer_epoch", "base_sequence")
    return one.header.producer_id >= 0 and all(
        getattr(one.header, name) == getattr(two.header, name) for name in fields
    )


def same_records(one: Batch, two: Batch) -> bool:
    """Whether they say the same; a broker may compress anew and put its own time on them."""
    if one.body == two.body:
        return True
    mine, yours = one.header, two.header
    fields = ("last_offset_delta", "producer_id", "producer_epoch", "base_sequence", "is_transactional", "is_control")
    if any(getattr(mine, name) != getattr(yours, name) for name in fields):
        return False
    timed = mine.log_append_time or yours.log_append_time
    pairs = list(zip(one.records(), two.records(), strict=False))
    return mine.records_count == yours.records_count and all(
        (a.key, a.value, a.headers) == (b.key, b.value, b.headers) and (timed or a.timestamp_ms == b.timestamp_ms)
        for a, b in pairs
    )
