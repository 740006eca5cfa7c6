"""Records by their places in the body of a batch, for callers that look at every record and keep few of them.

Nothing is made of a value or of headers: compaction copies the bytes of a record as they stand, lookups want the time
and the offset, a check wants to know whether there is a key.
"""

from collections.abc import Iterator
from typing import TypeAlias

from protocol.errors import ProtocolError
from protocol.primitives import append_varlong, read_varlong
from protocol.records.batch import BatchHeader, CorruptRecords
from protocol.records.compression import SMALLEST_RECORD, Body
from protocol.records.record import check_room, wrapped

Span: TypeAlias = tuple[int, int, int, int, bytes | None, int]
"""(start, end, offset, timestamp, key, bytes of the value or -1); a tuple because there may be millions of them."""
_HALF = 1 << 63


def spans_in(header: BatchHeader, body: Body) -> Iterator[Span]:
    """Every record of an opened batch. Raises `CorruptRecords`; what was yielded before is not to be trusted then."""
    check_room(header, body)
    try:
        yield from _read_spans(header, body)
    except (IndexError, ProtocolError) as error:
        raise CorruptRecords(f"unreadable record: {error}") from error


def _read_spans(header: BatchHeader, body: Body) -> Iterator[Span]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    at, size = 0, len(body)
    for _ in range(header.records_count):
        start = at
        length, at = read_varlong(body, at)
        end = at + length
        if length < SMALLEST_RECORD - 1 or end > size:
            raise CorruptRecords(f"a record of {length} bytes")
        number, at = read_varlong(body, at + 1)
        timestamp = base_timestamp + number
        if not -_HALF <= timestamp < _HALF:
            timestamp = wrapped(timestamp)
        number, at = read_varlong(body, at)
        offset = base_offset + number
        number, at = read_varlong(body, at)
        key = None
        if number >= 0:
            if number > end - at:
                raise CorruptRecords(f"{number} bytes inside a record with {end - at} left")
            key = body[at : at + number]
            at += number
        elif number != -1:
            raise CorruptRecords(f"a length of {number}")
        number, at = read_varlong(body, at)
        if number < -1 or number > end - at:
            raise CorruptRecords(f"a value of {number} bytes inside a record with {end - at} left")
        at += max(number, 0)
        if (at + 1 if not body[at] else _skip_headers(body, at, end)) != end:
            raise CorruptRecords("a record is not as long as it says")
        yield start, end, offset, timestamp if append_time is None else append_time, key, number
        at = end
    if at != size:
        raise CorruptRecords(f"{size - at} bytes behind the last record")


def _skip_headers(body: Body, at: int, end: int) -> int:
    count, at = read_varlong(body, at)
    if not 0 <= count <= (end - at) // 2:
        raise CorruptRecords(f"{count} record headers")
    for _ in range(count):
        for least in (0, -1):  # a header has a key, and a value or null
            length, at = read_varlong(body, at)
            if not least <= length <= end - at:
                raise CorruptRecords(f"a length of {length} in a record header")
            at += max(length, 0)
    return at


def skip_records(body: Body | memoryview, at: int, count: int) -> int:
    """The position behind `count` records that begin at `at`. Looks at nothing but their lengths, and raises
    `CorruptRecords` where these lead out of the body."""
    end = len(body)
    try:
        for _ in range(count):
            length = body[at]
            if length < 128:
                at += 1
            else:
                high = body[at + 1]
                if high < 128:
                    length = length & 127 | high << 7
                    at += 2
                else:
                    length, at = read_varlong(body, at)
                    length <<= 1
            if length & 1 or length < 2 * (SMALLEST_RECORD - 1):
                raise CorruptRecords("a record of an impossible length")
            at += length >> 1
    except (IndexError, ProtocolError) as error:
        raise CorruptRecords(f"unreadable record: {error}") from error
    if at > end:
        raise CorruptRecords(f"a record ends {at - end} bytes behind the batch")
    return at


def append_at_other_base(out: bytearray, body: Body, span: Span, *, old_base_ms: int, base_ms: int) -> None:
    """Append a record to a body whose batch has another base timestamp: the same record with another delta."""
    start, end = span[:2]
    _, at = read_varlong(body, start)
    attributes_at = at
    delta, at = read_varlong(body, at + 1)
    record = bytearray(body[attributes_at : attributes_at + 1])
    append_varlong(record, wrapped(old_base_ms + delta - base_ms))
    record += body[at:end]
    append_varlong(out, len(record))
    out += record
