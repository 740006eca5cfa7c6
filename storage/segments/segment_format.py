"""The layout of a partition's folder and of the entries in its index files: Kafka's, byte for byte.

    topic-0/00000000000000000042.log          batches, one after the other, the first at offset 42
            00000000000000000042.index        entries: relative offset i32, position i32
            00000000000000000042.timeindex    entries: timestamp i64, relative offset i32
            00000000000000000042.txnindex     aborted transactions whose marker is in this segment
            00000000000000000042.snapshot     producer state before offset 42
            leader-epoch-checkpoint           where each leader epoch begins
            partition.metadata                the topic id

An offset index entry names the last offset of a batch and the position where that batch starts. A time index
entry names the largest timestamp so far and the last offset of the batch that brought it.
"""

from struct import Struct
from typing import Final

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)

DELETED = ".deleted"
"""No longer part of the log; unlinked after file.delete.delay.ms, or at the next start."""
CLEANED = ".cleaned"
"""Being written by compaction; worthless after a crash."""
DAMAGED = ".damaged"
"""Cut off by a repair; kept for an operator who may recover something from it."""
SWAP = ".swap"
"""Complete, about to replace what it was made from; the replacement is finished at the next start."""

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")

LARGEST_RELATIVE_OFFSET: Final = (1 << 31) - 1
LENGTH_END: Final = 12
"""A batch's length field counts the bytes after itself, which ends here."""

BATCH_EXTENT = Struct(">qi11xi")
"""Base offset, length, last offset delta: all that is needed to step from batch to batch."""
BATCH_NEWS: Final = Struct(">8xi11xi8xq")
"""Length, last offset delta, max timestamp: all that an append looks at."""
BATCH_PLACE: Final = Struct(">qii")
"""Base offset, length, leader epoch: the sixteen bytes that an append writes anew (all outside the CRC)."""


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str = LOG) -> int | None:
    """The base offset in a file's name, or None where it is no file of that kind."""
    if not name.endswith(suffix):
        return None
    digits = name[: -len(suffix)]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None
