"""Filters that Spark hands down: on partition and topic, on offsets, on timestamps.

What is taken is decided exactly, record by record, so Spark need not look again: a partition is not read, a range is
cut, a batch whose timestamps lie below is not even decompressed, and the rest are comparisons of whole columns.
Everything else is left to Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from protocol.records.batch import BatchHeader
from spark_connector.source.ranges import OffsetRange
from spark_connector.source.records import Columns

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from `lowest` to `highest`, both included."""

    lowest: int = LOWEST
    highest: int = HIGHEST

    def both(self, other: "Span") -> "Span":
        return Span(max(self.lowest, other.lowest), min(self.highest, other.highest))

    def __contains__(self, value: int) -> bool:
        return self.lowest <= value <= self.highest


@dataclass(slots=True)
class Pushed:
    """What was taken, as the conditions that all must hold."""

    partitions: Span = Span()
    one_of_partitions: frozenset[int] | None = None
    one_of_topics: frozenset[str] | None = None
    offsets: Span = Span()
    times_ms: Span = field(default_factory=Span)

    def take(self, given: Sequence[Any]) -> list[Any]:
        """Take what can be taken; the rest is returned."""
        return [one for one in given if not self._take(one)]

    def _take(self, given: Any) -> bool:
        kind, path = type(given).__name__, tuple(getattr(given, "attribute", ()))
        if len(path) != 1:
            return False
        name = path[0]
        if kind == "IsNotNull":
            return name in ("topic", "partition", "offset", "timestamp", "timestampType")
        if kind not in ("EqualTo", "EqualNullSafe", "In", *_SPANS):
            return False
        value = given.value
        if name == "topic" and kind in ("EqualTo", "EqualNullSafe", "In"):
            return self._take_topics(value if kind == "In" else (value,))
        if name == "partition" and kind == "In":
            return self._take_partitions(value)
        if name in ("partition", "offset") and type(value) is int and kind != "In":
            span = _span(kind, value, value)
            if name == "partition":
                self.partitions = self.partitions.both(span)
            else:
                self.offsets = self.offsets.both(span)
            return True
        if name == "timestamp" and isinstance(value, datetime) and kind != "In":
            self.times_ms = self.times_ms.both(_span(kind, *_milliseconds(value)))
            return True
        return False

    def _take_topics(self, values: Sequence[Any]) -> bool:
        if not all(isinstance(value, str) for value in values):
            return False
        named = frozenset(values)
        self.one_of_topics = named if self.one_of_topics is None else self.one_of_topics & named
        return True

    def _take_partitions(self, values: Sequence[Any]) -> bool:
        if not all(type(value) is int for value in values):
            return False
        named = frozenset(values)
        self.one_of_partitions = named if self.one_of_partitions is None else self.one_of_partitions & named
        return True

    def reads(self, topic: str, partition: int) -> bool:
        """Whether any record of a partition can pass."""
        return (
            partition in self.partitions
            and (self.one_of_partitions is None or partition in self.one_of_partitions)
            and (self.one_of_topics is None or topic in self.one_of_topics)
        )

    def cut(self, piece: OffsetRange) -> OffsetRange:
        """The range without the offsets that cannot pass."""
        begin = max(piece.begin, self.offsets.lowest)
        end = piece.end if self.offsets.highest == HIGHEST else min(piece.end, self.offsets.highest + 1)
        return OffsetRange(piece.topic, piece.partition, begin, max(begin, end))

    def may_be_in(self, header: BatchHeader) -> bool:
        """Whether a batch can have records that pass, by what its header says of its timestamps."""
        if header.max_timestamp < self.times_ms.lowest:
            return False
        return not (header.log_append_time and header.max_timestamp > self.times_ms.highest)

    def choose(self, columns: Columns, within: Any) -> Any:
        """Those of the records that pass."""
        if self.times_ms == Span():
            return within
        times = columns.timestamps_ms[within]
        return within[(times >= self.times_ms.lowest) & (times <= self.times_ms.highest)]


_SPANS = ("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")


def _span(kind: str, floor: int, ceiling: int) -> Span:
    """What a comparison lets through, of whole numbers; floor and ceiling are those around the literal."""
    if kind == "LessThan":
        return Span(highest=ceiling - 1)
    if kind == "LessThanOrEqual":
        return Span(highest=floor)
    if kind == "GreaterThan":
        return Span(lowest=floor + 1)
    if kind == "GreaterThanOrEqual":
        return Span(lowest=ceiling)
    return Span(ceiling, floor)


def _milliseconds(value: datetime) -> tuple[int, int]:
    """Below and above: Spark's timestamps have microseconds, Kafka's do not."""
    aware = value if value.tzinfo else value.astimezone()
    difference = aware - _EPOCH
    microseconds = (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds
    return microseconds // 1000, -(-microseconds // 1000)
