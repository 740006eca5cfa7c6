"""What a partition remembers of one producer, packed into bytes.

A partition may know a hundred thousand idle producers, so an entry is one `bytes` in a dict, not a tree of objects:

    head    epoch i16 | coordinator epoch i32 | last timestamp i64 | last seen i64 | open transaction's first offset i64
    batches oldest first, at most five of: last sequence i32 | last offset i64 | offset delta i32 | timestamp i64

Entries are never changed in place. A new one replaces the old one when the append that caused it has succeeded.
"""

import struct
from typing import Final, NamedTuple

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
CACHED_BATCHES = 5
"""As many in-flight requests as an idempotent producer may have: a retry is always among the last five."""
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequences live in 0 .. 2^31-1 and wrap to 0 (KAFKA-7692)."""

HEAD: Final = struct.Struct("<hiqqq")
BATCH: Final = struct.Struct("<iqiq")
_FULL = CACHED_BATCHES * BATCH.size


class CachedBatch(NamedTuple):
    """One of the last batches of a producer: enough to recognise a retry and to answer it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """An entry, unpacked."""

    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    seen_ms: int = -1
    """When the broker last heard of the producer: the later of its timestamp and our own clock. A producer that writes
    historical timestamps is not forgotten early."""
    transaction_first_offset: int = NO_OFFSET
    batches: tuple[CachedBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def pack(self) -> bytes:
        head = HEAD.pack(*self[:5])
        return head + b"".join([BATCH.pack(*batch) for batch in self.batches])

    @classmethod
    def unpack(cls, packed: bytes) -> "ProducerEntry":
        batches = tuple(CachedBatch(*fields) for fields in BATCH.iter_unpack(packed[HEAD.size :]))
        epoch, coordinator_epoch, last_timestamp_ms, seen_ms, first_offset = HEAD.unpack_from(packed)
        return cls(epoch, coordinator_epoch, last_timestamp_ms, seen_ms, first_offset, batches)


def find_batch(packed: bytes, first_sequence: int, last_sequence: int) -> CachedBatch | None:
    """The cached batch with exactly these sequences."""
    for fields in BATCH.iter_unpack(memoryview(packed)[HEAD.size :]):
        if fields[0] == last_sequence and (fields[0] - fields[2]) & SEQUENCE_MASK == first_sequence:
            return CachedBatch(*fields)
    return None


def last_sequence_of(packed: bytes) -> int:
    """The sequence the producer's next batch follows; -1 where only a marker is known."""
    if len(packed) == HEAD.size:
        return NO_SEQUENCE
    sequence: int = BATCH.unpack_from(packed, len(packed) - BATCH.size)[0]
    return sequence


def with_batch(batches: bytes, added: bytes) -> bytes:
    """The packed batches of an entry with one more at the end; the oldest leaves when there are five."""
    return (batches[BATCH.size :] if len(batches) >= _FULL else batches) + added
