"""The header of a record batch (magic 2), and nothing behind it.

    0 base offset i64 | 8 batch length i32 (what follows) | 12 partition leader epoch i32 | 16 magic i8
    17 crc u32 (CRC-32C of everything from 21 on) | 21 attributes i16 | 23 last offset delta i32
    27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64 | 51 producer epoch i16
    53 base sequence i32 | 57 records count i32 | 61 records

Base offset and leader epoch lie outside the checksum: the broker writes them without touching the rest.
The last offset and sequence follow from the last offset delta, not from the count: compaction removes records.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.schema import INT16_MAX, Buffer

MAGIC: Final = 2
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
BEFORE_LENGTH_COUNTS: Final = 12
"""The bytes in front of those that the batch length counts."""
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON = 0x40
LAST_EPOCH: Final = INT16_MAX
"""The highest epoch of a producer. Markers may carry it, no client ever does."""
_CRC: Final = struct.Struct(">I")
_LENGTH_AND_CRC = struct.Struct(">8xi5xI")
_INT32: Final = struct.Struct(">i")
_SEQUENCES = 1 << 31
_make = tuple.__new__
"""A named tuple's own `_make` is a call of Python around this."""


class CorruptRecords(Exception):
    """Bytes that are not the records they claim to be. In a Produce that is an error code; the connection goes on."""


class BatchHeader(NamedTuple):
    """The 61 bytes, named."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """All bytes of the batch."""
        return self.batch_length + BEFORE_LENGTH_COUNTS

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """-1 where there are no sequences; behind 2^31 - 1 comes 0."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether all records have the time at which the broker took them, which is the maximum timestamp."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time from which tombstones and markers in here may go."""
        return self.attributes & DELETE_HORIZON != 0


def read_header(data: Buffer, offset: int = 0) -> BatchHeader:
    """The header at `offset`. Believes everything; raises `struct.error` where there are no 61 bytes."""
    return _make(BatchHeader, HEADER.unpack_from(data, offset))


def headers_in(data: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch; what is left over at the end is the caller's to notice.

    Raises `CorruptRecords` where a length cannot be one.
    """
    end = len(data)
    while position + HEADER_SIZE <= end:
        header = read_header(data, position)
        if header.batch_length < HEADER_SIZE - BEFORE_LENGTH_COUNTS:
            raise CorruptRecords(f"a batch of {header.batch_length} bytes at {position}")
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def check_crc(data: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch holds what its writer computed the checksum of."""
    end = position + header.batch_length + BEFORE_LENGTH_COUNTS
    return bool(crc32c(memoryview(data)[position + ATTRIBUTES_AT : end]) == header.crc)


def first_corrupt(data: Buffer) -> int | None:
    """The position of the first batch whose length cannot be one or whose checksum is wrong. Of many small batches:
    one look at each, and no header is made of it."""
    view, position, end = memoryview(data), 0, len(data)
    while position + HEADER_SIZE <= end:
        length, crc = _LENGTH_AND_CRC.unpack_from(view, position)
        behind = position + BEFORE_LENGTH_COUNTS + length
        if length < HEADER_SIZE - BEFORE_LENGTH_COUNTS:
            return position
        if behind > end:
            return None
        if crc32c(view[position + ATTRIBUTES_AT : behind]) != crc:
            return position
        position = behind
    return None


def seal(batch: bytearray) -> None:
    """Write length and checksum into a batch that is otherwise complete."""
    _INT32.pack_into(batch, 8, len(batch) - BEFORE_LENGTH_COUNTS)
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def place(batch: bytearray, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write offset and leader epoch into a header; the checksum does not cover them."""
    struct.pack_into(">q", batch, position, base_offset)
    _INT32.pack_into(batch, position + 12, leader_epoch)
