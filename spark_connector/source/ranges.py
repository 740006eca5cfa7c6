"""Ranges of offsets: what a task reads, how much of it, and how work is cut into tasks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

TopicPartition = tuple[str, int]
Position = dict[str, dict[str, int]]
"""Offsets as Spark keeps them, and as the stock source writes them: `{topic: {partition: next offset}}`."""
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `begin` to just before `end` of one partition."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.begin)

    @property
    def where(self) -> TopicPartition:
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.begin}, {self.end})"


def to_position(offsets: Mapping[TopicPartition, int]) -> Position:
    """Sorted, so that equal offsets are equal texts."""
    position: Position = {}
    for (topic, partition), offset in sorted(offsets.items()):
        position.setdefault(topic, {})[str(partition)] = offset
    return position


def from_position(position: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in position.items()
        for partition, offset in partitions.items()
    }


def limited(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """At most `most` offsets, shared in proportion to what each partition has, but none that has some gets nothing."""
    sizes = {where: end[where] - begin[where] for where in end}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= most:
        return end
    return {
        where: begin[where] + (min(size, max(1, most * size // total)) if size > 0 else 0)
        for where, size in sizes.items()
    }


def wanted_cuts(ranges: Sequence[OffsetRange], at_least: int, most_records: int) -> dict[OffsetRange, list[int]]:
    """Where ranges are to be cut so that there are about `at_least` of them, none with more than `most_records`.

    0 stands for no wish. The parts of one range are of one size.
    """
    total = sum(piece.size for piece in ranges)
    cuts: dict[OffsetRange, list[int]] = {}
    for piece in ranges:
        parts = 1
        if at_least > len(ranges) and total:
            parts = max(parts, round(at_least * piece.size / total))
        if most_records:
            parts = max(parts, -(-piece.size // most_records))
        parts = min(parts, piece.size)
        if parts > 1:
            cuts[piece] = [piece.begin + piece.size * number // parts for number in range(1, parts)]
    return cuts


def cut(piece: OffsetRange, at: Iterable[int]) -> list[OffsetRange]:
    """The range in parts; cuts outside of it, or twice, are none."""
    edges = [piece.begin, *sorted({edge for edge in at if piece.begin < edge < piece.end}), piece.end]
    return [replace(piece, begin=begin, end=end) for begin, end in pairwise(edges)]


def packed(ranges: Iterable[OffsetRange], most: int) -> list[tuple[OffsetRange, ...]]:
    """Neighbours together while they have at most `most` offsets; a larger range stays by itself."""
    packs: list[tuple[OffsetRange, ...]] = []
    room = 0
    for piece in ranges:
        if packs and piece.size <= room:
            packs[-1] += (piece,)
            room -= piece.size
        else:
            packs.append((piece,))
            room = most - piece.size
    return packs
