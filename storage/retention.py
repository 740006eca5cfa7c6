"""Which segments of a log have had their time, and giving them up in slices.

Kafka's three rules: older than retention.ms, more than retention.bytes, or wholly before the log's start (of
DeleteRecords). The first two hold only where cleanup.policy includes `delete`. Segments go from the oldest on and never
beyond the high watermark; the active segment goes too, once its time has come: a new one is begun first.
"""

from typing import TYPE_CHECKING

from storage.segments.segment import Segment
from storage.steps import Steps

if TYPE_CHECKING:
    from storage.segment_log import SegmentLog


SEGMENTS_PER_SLICE = 16


def enforce_retention(log: "SegmentLog", now_ms: int, high_watermark: int) -> bool:
    """Delete what is due, at most `SEGMENTS_PER_SLICE` segments of it. True if there is more to do."""
    if log.failed:
        return False
    due = _segments_due(log, now_ms, high_watermark)
    if due == 0:
        return False
    if due == len(log.segments):
        log.roll()
    count = min(due, SEGMENTS_PER_SLICE)
    log.remove_oldest(count)
    if log.config.file_delete_delay_ms == 0 and not log.is_flushing:
        log.disposal.take_due(now_ms, SEGMENTS_PER_SLICE)()
    return due > count


def free_space(log: "SegmentLog", now_ms: int) -> Steps[None]:
    """Unlink, beside the loop, what has waited for file.delete.delay.ms."""
    while not log.failed and not log.is_flushing and log.disposal.is_due(now_ms):
        yield from log.disposal.off_the_loop(log.disposal.take_due(now_ms, SEGMENTS_PER_SLICE))


def due_offset(log: "SegmentLog", now_ms: int, high_watermark: int) -> int:
    """Where what is due ends: what follows from the bytes before it has to be known without them by then."""
    due = 0 if log.failed else _segments_due(log, now_ms, high_watermark)
    return log.end_offset if due == len(log.segments) else log.segments[due].base_offset if due else 0


def _segments_due(log: "SegmentLog", now_ms: int, high_watermark: int) -> int:
    """How many segments, counted from the oldest, may go."""
    config, segments = log.config, log.segments
    by_time = config.cleanup_delete and config.retention_ms >= 0
    by_size = config.cleanup_delete and config.retention_bytes >= 0
    excess_bytes = log.size_bytes - config.retention_bytes if by_size else 0
    for count, segment in enumerate(segments):
        is_last = count + 1 == len(segments)
        end_offset = log.end_offset if is_last else segments[count + 1].base_offset
        if end_offset > high_watermark or segment.size_bytes == 0:
            return count
        excess_bytes -= segment.size_bytes
        breaches = (
            (by_time and now_ms - _newest_ms(segment) > config.retention_ms)
            or (by_size and excess_bytes >= 0)
            or (end_offset <= log.start_offset and not is_last)
        )
        if not breaches:
            return count
    return len(segments)


def _newest_ms(segment: Segment) -> int:
    """Records without timestamps are as old as their segment. Raises `LogDamaged`."""
    largest_ms = segment.largest_timestamp[0]
    return largest_ms if largest_ms >= 0 else segment.created_ms
