"""Finding records by time, in a list of batches or in segments. The one place where a log looks inside a batch.

Lookups go in steps. What changes the segments meanwhile makes them begin again.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from protocol.records.batch import HEADER_SIZE, BatchHeader, CorruptRecords, read_header
from protocol.records.compression import DEFAULT_BOUNDS, Bounds
from protocol.records.spans import spans_in
from protocol.schema import Buffer
from storage.log import BEYOND_ALL_OFFSETS, LogClosed, LogConfig, TimestampedOffset
from storage.segment_ends import look_at_end
from storage.segments.segment import Segment
from storage.segments.segment_reading import BEFORE_ITS_BYTES
from storage.steps import RECORDS_AT_ONCE, NoLongerTrue, Spent, Steps, never, opened, while_true

LOOKUP_BYTES = 64 << 10
MOST_COUNTED = 1_000
Found = TimestampedOffset | None


class Unreadable:
    """The batches of one log that lookups pass over, because they cannot be opened, within their bounds or at all. Each
    is counted once, up to `MOST_COUNTED`. The first is named: `report` gets a sentence for the broker's log."""

    def __init__(self, log_name: str) -> None:
        self._log_name = log_name
        self._base_offsets: frozenset[int] = frozenset()
        self.report: Callable[[str], object] = lambda _: None

    @property
    def batches(self) -> int:
        """How many there were."""
        return len(self._base_offsets)

    def pass_over(self, header: BatchHeader, error: CorruptRecords) -> None:
        """Count a batch that has just been passed over."""
        if not self._base_offsets:
            self.report(f"{self._log_name}: a lookup by time passes over the batch at {header.base_offset}: {error}")
        if len(self._base_offsets) < MOST_COUNTED:
            self._base_offsets |= {header.base_offset}


def headers_from(log: "Segments", index: int, position: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
    """Every header from a position in a segment on; with a control batch, its bytes. Raises `LogDamaged`."""
    for number, segment in enumerate(log.segments[index:]):
        _look_at_end(log, segment)
        if number and BEFORE_ITS_BYTES in segment.damage:
            raise segment.damage[BEFORE_ITS_BYTES].with_traceback(None)
        for _, header, batch in segment.all_batches(position):
            yield header, batch if header.is_control else None
        position = 0


def first_record_at_or_after(
    timestamp_ms: int,
    batches: Iterable[Buffer],
    *,
    start_offset: int,
    end_offset: int,
    bounds: Bounds = DEFAULT_BOUNDS,
    spent: Spent = never,
    unreadable: Unreadable | None = None,
) -> Steps[Found]:
    """The first record in [start_offset, end_offset) that is not older than `timestamp_ms`. A batch that cannot be read
    has none, and is counted."""
    for batch in batches:
        if spent():
            yield None
        header = read_header(batch)
        if header.base_offset >= end_offset:
            return None
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        offsets = range(start_offset, end_offset)
        try:
            found = yield from _first_in_batch(timestamp_ms, header, batch, offsets, bounds, spent)
        except CorruptRecords as error:
            _pass_over(header, error, unreadable)
            continue
        if found is not None:
            return found
    return None


def _first_in_batch(
    timestamp_ms: int, header: BatchHeader, batch: Buffer, offsets: range, bounds: Bounds, spent: Spent
) -> Steps[Found]:
    """A frame of its own, so that what was decompressed is gone before the next batch is opened."""
    body = yield from opened(header, batch, bounds)
    for seen, (_, _, offset, record_ms, _, _) in enumerate(spans_in(header, body), 1):
        if record_ms >= timestamp_ms and offset in offsets:
            return TimestampedOffset(record_ms, offset, header.leader_epoch)
        if not seen % RECORDS_AT_ONCE and spent():
            yield None
    return None


def largest_timestamp(
    batches: Iterable[Buffer], start_offset: int, bounds: Bounds, spent: Spent, unreadable: Unreadable | None = None
) -> Steps[int]:
    """The largest timestamp of the records that are still there; -1 where there is none."""
    largest = -1
    for batch in batches:
        if spent():
            yield None
        header = read_header(batch)
        if header.base_offset >= start_offset:
            largest = max(largest, header.max_timestamp)
            continue
        try:
            largest = max(largest, (yield from _largest_in_batch(header, batch, start_offset, bounds, spent)))
        except CorruptRecords as error:
            _pass_over(header, error, unreadable)
    return largest


def _largest_in_batch(
    header: BatchHeader, batch: Buffer, start_offset: int, bounds: Bounds, spent: Spent
) -> Steps[int]:
    largest = -1
    body = yield from opened(header, batch, bounds)
    for seen, (_, _, offset, record_ms, _, _) in enumerate(spans_in(header, body), 1):
        if offset >= start_offset:
            largest = max(largest, record_ms)
        if not seen % RECORDS_AT_ONCE and spent():
            yield None
    return largest


def _pass_over(header: BatchHeader, error: CorruptRecords, unreadable: Unreadable | None) -> None:
    if unreadable is not None:
        unreadable.pass_over(header, error)


class Segments(Protocol):
    """A log as a lookup sees it."""

    @property
    def segments(self) -> list[Segment]: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def config(self) -> LogConfig: ...

    @property
    def failed(self) -> bool: ...

    @property
    def unreadable(self) -> Unreadable: ...


def find_in_segments(timestamp_ms: int, log: Segments, *, end_offset: int, spent: Spent) -> Steps[Found]:
    """The same, passing over what the time indexes say is older. Raises `LogClosed`."""
    while True:
        segments = list(log.segments)
        try:
            return (yield from while_true(_find(timestamp_ms, log, segments, end_offset, spent), _stand(log, segments)))
        except NoLongerTrue:
            continue  # Retention or compaction changed the segments: begin again.


def _find(timestamp_ms: int, log: Segments, segments: Sequence[Segment], end_offset: int, spent: Spent) -> Steps[Found]:
    start_offset = log.start_offset
    for segment in segments:
        if spent():
            yield None
        if segment.base_offset >= end_offset:
            return None
        _look_at_end(log, segment)
        if segment.largest_timestamp[0] < timestamp_ms:
            _refuse_damaged(segment, start_offset, end_offset)
            continue
        position = segment.locate(max(_oldest_possible(segment, timestamp_ms), start_offset))
        batches = (batch for _, _, batch in segment.batches(position, read_bytes=LOOKUP_BYTES))
        found = yield from first_record_at_or_after(
            timestamp_ms,
            batches,
            start_offset=start_offset,
            end_offset=end_offset,
            bounds=log.config.decompression,
            spent=spent,
            unreadable=log.unreadable,
        )
        _refuse_damaged(segment, start_offset, end_offset if found is None else found.offset)
        if found is not None:
            return found
    return None


def _oldest_possible(segment: Segment, timestamp_ms: int) -> int:
    """An offset before which everything is older. Everything up to the batch of an entry of the time index is older, or
    is this batch; an entry that no batch is as old as was damaged."""
    for _ in range(2):
        entry = segment.time_index.floor(0, timestamp_ms)
        if entry is None:
            break
        offset = segment.base_offset + entry[1]
        raw = segment.log.read(segment.locate(offset), HEADER_SIZE)
        if len(raw) == HEADER_SIZE:
            header = read_header(raw)
            if header.max_timestamp == entry[0] and header.base_offset <= offset <= header.last_offset:
                return offset
        if not segment.is_indexed_anew:
            segment.index_anew()
    return segment.base_offset


def _look_at_end(log: Segments, segment: Segment) -> None:
    """Of a segment that is not the last."""
    bases = [one.base_offset for one in log.segments]
    following = bisect_right(bases, segment.base_offset)
    if following < len(bases):
        look_at_end(log, segment, bases[following])


def _refuse_damaged(segment: Segment, start_offset: int, end_offset: int) -> None:
    """What lies between two offsets may not be passed over: it may be what is looked for. Raises `LogDamaged`."""
    for damaged in segment.damage.values():
        if damaged.offset < end_offset and start_offset < damaged.next_offset:
            raise damaged.with_traceback(None)


def newest_in_segments(log: Segments, *, end_offset: int, spent: Spent) -> Steps[Found]:
    """The record with the largest timestamp, the first of them (KIP-734). Raises `LogClosed`."""
    while True:
        segments = list(log.segments)
        try:
            largest = yield from while_true(_largest(log, segments, spent), _stand(log, segments))
        except NoLongerTrue:
            continue
        if largest < 0:
            return None
        return (yield from find_in_segments(largest, log, end_offset=end_offset, spent=spent))


def _largest(log: Segments, segments: Sequence[Segment], spent: Spent) -> Steps[int]:
    start_offset = log.start_offset
    following = [segment.base_offset for segment in segments[1:]]
    # Segments that end before the start wait for retention; nothing of them counts.
    segments = segments[bisect_right(following, start_offset) :]
    for segment in segments:
        _look_at_end(log, segment)
        _refuse_damaged(segment, start_offset, BEYOND_ALL_OFFSETS)
        if spent():
            yield None
    largest = max(segment.largest_timestamp[0] for segment in segments[1:]) if len(segments) > 1 else -1
    first = segments[0]
    if first.largest_timestamp[0] >= largest:
        # Its largest timestamp may belong to a record that was deleted from its beginning.
        newest = first.largest_timestamp[0]
        if start_offset > first.base_offset:
            batches = (batch for _, _, batch in first.batches(first.locate(start_offset), read_bytes=LOOKUP_BYTES))
            bounds = log.config.decompression
            newest = yield from largest_timestamp(batches, start_offset, bounds, spent, log.unreadable)
        largest = max(largest, newest)
    return largest


def _stand(log: Segments, segments: Sequence[Segment]) -> Callable[[], bool]:
    """Whether the first segments of a log are still these; more may follow."""

    def stand() -> bool:
        if log.failed:
            raise LogClosed
        return log.segments[: len(segments)] == segments

    return stand
