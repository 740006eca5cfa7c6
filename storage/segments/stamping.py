"""What an append does to batches before they are written: give them their place in the log.

Base offset and leader epoch stand in the first sixteen bytes and outside the CRC. Only those bytes are
made anew; the rest of each batch is handed on as a slice, never copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from protocol.schema import Buffer
from storage.segments.segment_format import BATCH_NEWS, BATCH_PLACE, LENGTH_END


@dataclass(init=False, slots=True)
class Placed:
    """One batch that is about to be written: what indexes and epochs need to know of it."""

    base_offset: Final[int]
    last_offset: Final[int]
    size_bytes: Final[int]
    max_timestamp_ms: Final[int]

    def __init__(self, base_offset: int, last_offset: int, size_bytes: int, max_timestamp_ms: int) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.size_bytes = size_bytes
        self.max_timestamp_ms = max_timestamp_ms


def stamp(batches: Buffer, offset: int, leader_epoch: int) -> tuple[list[Buffer], list[Placed]]:
    """Give each batch the next offsets and the epoch. Returns the parts to write and what they are."""
    view = memoryview(batches)
    total = len(view)
    parts: list[Buffer] = []
    placed: list[Placed] = []
    position = 0
    while position < total:
        length, last_offset_delta, max_timestamp = BATCH_NEWS.unpack_from(view, position)
        end = position + LENGTH_END + length
        assert position < end <= total, "a batch is cut short"
        assert last_offset_delta >= 0, "a batch holds at least one offset"
        parts.append(BATCH_PLACE.pack(offset, length, leader_epoch))
        parts.append(view[position + 16 : end])
        placed.append(Placed(offset, offset + last_offset_delta, end - position, max_timestamp))
        offset += last_offset_delta + 1
        position = end
    return parts, placed


def together(placed: Sequence[Placed]) -> Placed:
    """Several batches as if they were one."""
    size_bytes = sum([batch.size_bytes for batch in placed])
    newest_ms = max([batch.max_timestamp_ms for batch in placed])
    return Placed(placed[0].base_offset, placed[-1].last_offset, size_bytes, newest_ms)


def leader_epoch_at(batch: Buffer) -> int:
    """The leader epoch of a batch."""
    epoch: int = BATCH_PLACE.unpack_from(batch)[2]
    return epoch
