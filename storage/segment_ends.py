"""The end of a final segment, looked at once, when the segment is first read: its last batches have to rise, and to end
where the next segment begins.

A file that was cut short, or is longer than what was written, looks whole to a reader of headers alone. What is
missing is entered as damage, which readers are refused; what is too much is not read, and said in a sentence. Both
indexes are made anew where they end before the segment does.
"""

from typing import TYPE_CHECKING

from protocol.records.batch import HEADER_SIZE, read_header
from storage.log import LogDamaged
from storage.segments.segment import INDEX_BEHIND_BYTES, Segment
from storage.segments.segment_format import LOG
from storage.segments.segment_reading import BEFORE_ITS_BYTES

if TYPE_CHECKING:
    from storage.lookup import Segments


def look_at_end(log: "Segments", segment: Segment, end_offset: int) -> None:
    """`end_offset` is where the next segment begins. Raises `LogDamaged` where an index cannot be read, `OSError`."""
    if segment.end_is_known:
        return
    offset, position = _walk(segment, end_offset, INDEX_BEHIND_BYTES + log.config.index_interval_bytes)
    segment.end_is_known = True
    if position == segment.size_bytes:
        if offset < end_offset and not log.config.cleanup_compact:
            enter_gap(log, segment, offset, end_offset)
    elif offset == end_offset:
        surplus = segment.size_bytes - position
        segment.size_bytes = position
        log.unreadable.report(f"{segment.path}{LOG}: {surplus} bytes behind its last batch are left alone")
    else:
        segment.damaged(position, offset, "no batch can begin like this, or the file ends within one", end_offset)


def _walk(segment: Segment, end_offset: int, indexed_every: int) -> tuple[int, int]:
    """How far the batches are in order from the last index entry on: the offset behind them, and their position."""
    last = segment.offset_index.last
    position = began = last[1] if last is not None else 0
    offset, newest_ms, batches = segment.base_offset, -1, 0
    while len(raw := segment.log.read(position, HEADER_SIZE)) == HEADER_SIZE:
        header = read_header(raw)
        in_order = offset <= header.base_offset <= header.last_offset < end_offset and header.magic == 2
        if not in_order or header.size < HEADER_SIZE or position + header.size > segment.size_bytes:
            break
        if batches and position - began > indexed_every and not segment.is_indexed_anew:
            segment.index_anew()
            return _walk(segment, end_offset, indexed_every)
        offset, position, batches = header.next_offset, position + header.size, batches + 1
        newest_ms = max(newest_ms, header.max_timestamp)
    if began and not batches and not segment.is_indexed_anew:
        segment.index_anew()  # The damage begins where the last entry leads to: what lies before it ends elsewhere.
        return _walk(segment, end_offset, indexed_every)
    times = segment.time_index.last
    if newest_ms > (-1 if times is None else times[0]) and not segment.is_indexed_anew:
        segment.index_anew()
    return offset, position


def enter_gap(log: "Segments", segment: Segment, offset: int, end_offset: int) -> LogDamaged:
    """Offsets behind a segment that are in none. Readers are kept from passing over them by the segment behind. In a
    compacted log that another program has written such a gap means nothing."""
    later = next(one for one in log.segments if one.base_offset == end_offset)
    segment.ends_at = offset
    gap = LogDamaged(f"{later.path}{LOG}", None, offset, "what lies before this segment is missing", end_offset)
    return later.damage.setdefault(BEFORE_ITS_BYTES, gap)
