"""The records inside a batch: reading them, and building batches of them.

    length varint | attributes i8 | timestamp delta varlong | offset delta varint | key length varint (-1 null), key |
    value length varint (-1 null), value | header count varint | per header: key length, key, value length, value

All varints are zig-zag. Timestamps and offsets are relative to the base timestamp and base offset of the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from protocol.errors import ProtocolError
from protocol.primitives import append_varlong, read_varlong
from protocol.records import compression
from protocol.records.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    CorruptRecords,
    read_header,
    seal,
)
from protocol.records.compression import SMALLEST_RECORD, Body
from protocol.schema import Buffer

Headers = tuple[tuple[str, bytes | None], ...]
_HALF = 1 << 63


class TimestampType(IntEnum):
    """Whose timestamp a record has: its producer's, or that of the broker that took it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(slots=True)
class Record:
    """A record as it is read."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(init=False, slots=True)
class NewRecord:
    """A record to be written. Its offset follows from its place in the batch."""

    value: bytes | None
    key: bytes | None
    timestamp_ms: int
    headers: Headers

    def __init__(
        self, value: bytes | None, key: bytes | None = None, timestamp_ms: int = 0, headers: Headers = ()
    ) -> None:
        self.value = value
        self.key = key
        self.timestamp_ms = timestamp_ms
        self.headers = headers


def records_of(batch: Buffer, position: int = 0, *, limit: int = compression.DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of the batch that begins at `position`, control records among them.

    Raises `CorruptRecords` where they do not add up to what the header says; what was yielded before that is then
    not to be trusted either.
    """
    header = read_header(batch, position)
    yield from records_in(header, body_of(header, batch, position, limit=limit))


def body_of(header: BatchHeader, batch: Buffer, position: int = 0, *, limit: int = compression.DEFAULT_LIMIT) -> Body:
    """The bytes of the records, uncompressed. Raises `CorruptRecords`."""
    body = memoryview(batch)[position + HEADER_SIZE : position + header.size]
    if header.compression and body:
        return compression.decompress_body(header.compression, body, limit)
    return bytes(body)


def records_in(header: BatchHeader, body: Body) -> Iterator[Record]:
    """The records of a batch that was opened already. Raises `CorruptRecords`."""
    check_room(header, body)
    try:
        yield from _read_records(header, body)
    except (IndexError, UnicodeDecodeError, ProtocolError) as error:
        raise CorruptRecords(f"unreadable record: {error}") from error


def check_room(header: BatchHeader, body: Body | memoryview) -> None:
    """Raises `CorruptRecords` where so many records cannot lie in so few bytes."""
    if header.records_count < 0 or header.records_count * SMALLEST_RECORD > len(body):
        raise CorruptRecords(f"{header.records_count} records in {len(body)} bytes")


def wrapped(timestamp_ms: int) -> int:
    """A sum of two timestamps as a Java `long` has it: beyond 64 bits it goes round."""
    return (timestamp_ms + _HALF) % (_HALF * 2) - _HALF


def _read_records(header: BatchHeader, body: Body) -> Iterator[Record]:
    """Varints of one byte, which most are, are read in place."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    at = 0
    for _ in range(header.records_count):
        length, at = read_varlong(body, at)
        end = at + length
        if length < SMALLEST_RECORD - 1 or end > len(body):
            raise CorruptRecords(f"a record of {length} bytes")
        at += 1
        number = body[at]
        if number < 128:
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
            at += 1
        else:
            number, at = read_varlong(body, at)
            timestamp = base_timestamp + number
        if not -_HALF <= timestamp < _HALF:
            timestamp = wrapped(timestamp)
        number = body[at]
        if number < 128:
            offset = base_offset + ((number >> 1) ^ -(number & 1))
            at += 1
        else:
            number, at = read_varlong(body, at)
            offset = base_offset + number
        key, at = _read_bytes(body, at, end)
        value, at = _read_bytes(body, at, end)
        headers: Headers = ()
        if body[at]:
            headers, at = _read_headers(body, at, end)
        else:
            at += 1
        if at != end:
            raise CorruptRecords("a record is not as long as it says")
        yield Record(offset, timestamp if append_time is None else append_time, key, value, headers)
    if at != len(body):
        raise CorruptRecords(f"{len(body) - at} bytes behind the last record")


def _read_bytes(body: Body, at: int, end: int) -> tuple[bytes | None, int]:
    """A key or value; -1 is null."""
    length = body[at]
    if length < 128:
        length = (length >> 1) ^ -(length & 1)
        at += 1
    else:
        length, at = read_varlong(body, at)
    if length < 0:
        if length == -1:
            return None, at
        raise CorruptRecords(f"a length of {length}")
    if length > end - at:
        raise CorruptRecords(f"{length} bytes inside a record with {end - at} left")
    return body[at : at + length], at + length


def _read_headers(body: Body, at: int, end: int) -> tuple[Headers, int]:
    count, at = read_varlong(body, at)
    if not 0 <= count <= (end - at) // 2:
        raise CorruptRecords(f"{count} record headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, at = _read_bytes(body, at, end)
        value, at = _read_bytes(body, at, end)
        if key is None:
            raise CorruptRecords("a record header without a key")
        headers.append((key.decode(), value))
    return tuple(headers), at


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    compression: int = compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    leader_epoch: int = -1,
) -> bytes:
    """A whole batch, checksum included. Its first timestamp is the base, its largest the maximum."""
    if not records:
        raise ValueError("a batch that a producer writes holds at least one record")
    attributes = (
        compression
        | (LOG_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=records[0].timestamp_ms,
        max_timestamp=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    body = bytearray()
    base_timestamp = header.base_timestamp
    for delta, record in enumerate(records):
        _append_record(body, record.timestamp_ms - base_timestamp, delta, record)
    return assemble(header, body)


class GrowingBatch:
    """A batch that is built record by record, all of one time."""

    def __init__(self, timestamp_ms: int) -> None:
        self._timestamp_ms = timestamp_ms
        self._body = bytearray()
        self._count = 0

    def add(self, record: NewRecord) -> None:
        _append_record(self._body, 0, self._count, record)
        self._count += 1

    def whole(self) -> bytes:
        """The batch, checksum included; one record at least was added."""
        first = read_header(build_batch([NewRecord(value=None, timestamp_ms=self._timestamp_ms)]))
        return assemble(first._replace(last_offset_delta=self._count - 1, records_count=self._count), self._body)


def assemble(header: BatchHeader, body: bytearray | Body, level: int | None = None) -> bytes:
    """A whole batch of uncompressed records: compressed as the header says, with length and checksum."""
    batch = bytearray(HEADER.pack(*header))
    batch += compression.compress(header.compression, body, level) if header.compression else body
    seal(batch)
    return bytes(batch)


def _append_record(out: bytearray, timestamp_delta: int, offset_delta: int, record: Record | NewRecord) -> None:
    body = bytearray(1)
    append_varlong(body, timestamp_delta)
    append_varlong(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    append_varlong(body, len(record.headers))
    for key, value in record.headers:
        _append_bytes(body, key.encode())
        _append_bytes(body, value)
    append_varlong(out, len(body))
    out += body


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
    else:
        append_varlong(out, len(data))
        out += data
