"""Finding records by time, in a list of batches or in segments. The one place where a log looks inside a batch."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from protocol.records.batch import BatchHeader, read_header
from protocol.records.record import records_of
from protocol.schema import Buffer
from storage.log import TimestampedOffset
from storage.segment import Segment

LOOKUP_BYTES = 64 << 10


def headers_from(segments: Iterable[Segment], position: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
    """Every header from a position in the first segment on; with a control batch, its bytes."""
    for segment in segments:
        for _, header, batch in segment.all_batches(position):
            yield header, batch if header.is_control else None
        position = 0


def first_record_at_or_after(
    timestamp_ms: int, batches: Iterable[Buffer], *, start_offset: int, end_offset: int
) -> TimestampedOffset | None:
    """The first record in [start_offset, end_offset) that is not older than `timestamp_ms`."""
    for batch in batches:
        header = read_header(batch)
        if header.base_offset >= end_offset:
            return None
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        for record in records_of(batch):
            if record.timestamp_ms >= timestamp_ms and start_offset <= record.offset < end_offset:
                return TimestampedOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def largest_timestamp(batch: Buffer, start_offset: int) -> int:
    """The largest timestamp in a batch of the records that are still there."""
    header = read_header(batch)
    if header.base_offset >= start_offset:
        return header.max_timestamp
    return max((record.timestamp_ms for record in records_of(batch) if record.offset >= start_offset), default=-1)


def find_in_segments(
    timestamp_ms: int, segments: Sequence[Segment], *, start_offset: int, end_offset: int
) -> TimestampedOffset | None:
    """The same, passing over what the time indexes say is older."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if segment.largest_timestamp[0] < timestamp_ms:
            continue
        entry = segment.time_index.floor(0, timestamp_ms)
        # Everything up to the batch of this entry is older, or is this batch.
        offset = segment.base_offset + entry[1] if entry is not None else segment.base_offset
        position = segment.locate(max(offset, start_offset))
        batches = (batch for _, _, batch in segment.batches(position, read_bytes=LOOKUP_BYTES))
        found = first_record_at_or_after(timestamp_ms, batches, start_offset=start_offset, end_offset=end_offset)
        if found is not None:
            return found
    return None


def newest_in_segments(segments: Sequence[Segment], *, start_offset: int, end_offset: int) -> TimestampedOffset | None:
    """The record with the largest timestamp, the first of them (KIP-734)."""
    following = [segment.base_offset for segment in segments[1:]]
    # Segments that end before the start wait for retention; nothing of them counts.
    segments = segments[bisect_right(following, start_offset) :]
    largest = max(segment.largest_timestamp[0] for segment in segments[1:]) if len(segments) > 1 else -1
    first = segments[0]
    if first.largest_timestamp[0] >= largest:
        # Its largest timestamp may belong to a record that was deleted from its beginning.
        newest = first.largest_timestamp[0]
        if start_offset > first.base_offset:
            batches = (batch for _, _, batch in first.batches(first.locate(start_offset)))
            newest = max((largest_timestamp(batch, start_offset) for batch in batches), default=-1)
        largest = max(largest, newest)
    if largest < 0:
        return None
    return find_in_segments(largest, segments, start_offset=start_offset, end_offset=end_offset)
