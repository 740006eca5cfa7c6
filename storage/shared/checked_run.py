"""Whether what was brought of a run is what was committed: whole batches, each in its place.

A batch's own checksum begins behind its head. What stands there is where the batch lies: base offset, length, leader
epoch. Changed, it would have a takeover pass a record over, and a reader wait for one that never comes.

Rule 1. A run is committed with a checksum of the heads of its batches. With those of the batches it covers every byte.
Rule 2. Runs that older versions have committed have none. Of these, too, batches lie one behind the other, within the
        run, up to its end, under epochs that only grow: one place that is wrong is found where there are no gaps, which
        compaction alone leaves.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from protocol.records.batch import ATTRIBUTES_AT, BEFORE_LENGTH_COUNTS, HEADER_SIZE, MAGIC, CorruptRecords
from protocol.schema import Buffer
from storage.segments.stamping import Placed
from storage.shared.store import Run
from storage.stretch import Stretch

HEAD_SIZE = ATTRIBUTES_AT
_PLACE = struct.Struct(">qiibI2xi8xq")
"""Base offset, length, leader epoch, magic, checksum, last offset delta, maximum timestamp."""


class Known(NamedTuple):
    """What a node knows of a log whose bytes it asks for. It may have been led on meanwhile, by others."""

    end_offset: int
    latest_epoch: int
    """Of what lies before the end."""


def heads_crc(batches: Iterable[Buffer]) -> int:
    """CRC-32C of the heads of some batches."""
    return crc32c(b"".join([batch[:HEAD_SIZE] for batch in batches]))


def checked_batches(found: Stretch, run: Run, piece: bytes, known: Known, after_epoch: int) -> Iterator[int]:
    """Put the batches of a run into `found`. Yields the leader epoch of each; that of the first is `after_epoch` or
    later. Raises `CorruptRecords` where they are not what was committed, by the end at the latest."""
    view, position, end = memoryview(piece), 0, len(piece)
    offset, epoch = run.base_offset, after_epoch
    while position < end:
        if position + HEADER_SIZE > end:
            raise CorruptRecords("a run ends within a batch")
        base_offset, length, leader_epoch, magic, crc, delta, newest_ms = _PLACE.unpack_from(view, position)
        behind = position + BEFORE_LENGTH_COUNTS + length
        if not position + HEADER_SIZE <= behind <= end or magic != MAGIC:
            raise CorruptRecords("what lies there is no batch")
        if crc32c(view[position + ATTRIBUTES_AT : behind]) != crc:
            raise CorruptRecords("a checksum is wrong")
        is_too_late = leader_epoch > known.latest_epoch and base_offset < known.end_offset
        if base_offset < offset or leader_epoch < epoch or is_too_late:
            raise CorruptRecords("a batch is not in its place")
        last_offset, epoch = base_offset + delta, leader_epoch
        found.append(piece[position:behind], Placed(base_offset, last_offset, behind - position, newest_ms))
        position, offset = behind, last_offset + 1
        yield epoch
    if end != run.size_bytes or offset != run.last_offset + 1:
        raise CorruptRecords("a run is not what was committed")
    if run.heads_crc is not None and heads_crc(found.batches) != run.heads_crc:
        raise CorruptRecords("a checksum of heads is wrong")
