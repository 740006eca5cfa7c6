"""The records of several batches as columns of numbers and positions, without an object per record.

A `Chunk` is the bytes of some batches' records in one piece; `read_columns` finds in it what the columns of a frame
are made of: offsets, timestamps, and where keys and values lie. Nothing is copied but what was compressed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from protocol.records import compression
from protocol.records.batch import HEADER_SIZE, BatchHeader, CorruptRecords, check_crc
from protocol.schema import Buffer
from spark_connector.source.varints import INT, LONG, record_starts, signed_varints

_SMALLEST_RECORD = 7
_SEQUENCES = 0x7FFFFFFF


@dataclass(slots=True)
class Chunk:
    """Batches whose records lie in `data` (uint8), each between two positions."""

    headers: list[BatchHeader]
    data: Any
    spans: list[tuple[int, int]]


@dataclass(slots=True)
class Columns:
    """What was found. Arrays of one entry per record; a length of -1 is a null."""

    data: Any
    headers: list[BatchHeader]
    batches: Any
    """Which of the headers a record belongs to."""
    deltas: Any
    offsets: Any
    timestamps_ms: Any
    key_starts: Any
    key_lengths: Any
    value_starts: Any
    value_lengths: Any
    behind_values: Any
    ends: Any


def chunks(
    fetched: Buffer, batches: Sequence[tuple[int, BatchHeader]], *, most_records: int, most_bytes: int, check: bool
) -> Iterator[Chunk]:
    """Cut the chosen batches of a fetch into chunks. `check` compares checksums.

    A chunk holds compressed batches or uncompressed ones; those are not copied. Raises `CorruptRecords`.
    """
    data = np.frombuffer(fetched, dtype=np.uint8)
    plain: list[tuple[int, BatchHeader]] = []
    packed: list[tuple[BatchHeader, bytes]] = []
    records = size = 0
    for position, header in batches:
        if check and not check_crc(fetched, position, header):
            raise CorruptRecords(f"the batch at offset {header.base_offset} does not match its checksum")
        if not header.records_count:
            continue
        if header.compression:
            if plain:
                yield _plain(data, plain)
                plain, records, size = [], 0, 0
            body = memoryview(fetched)[position + HEADER_SIZE : position + header.size]
            packed.append((header, compression.decompress(header.compression, body)))
            size += len(packed[-1][1])
        else:
            if packed:
                yield _unpacked(packed)
                packed, records, size = [], 0, 0
            plain.append((position, header))
            size += header.size
        records += header.records_count
        if records >= most_records or size >= most_bytes:
            yield _plain(data, plain) if plain else _unpacked(packed)
            plain, packed, records, size = [], [], 0, 0
    if plain:
        yield _plain(data, plain)
    if packed:
        yield _unpacked(packed)


def _plain(data: Any, batches: list[tuple[int, BatchHeader]]) -> Chunk:
    spans = [(position + HEADER_SIZE, position + header.size) for position, header in batches]
    return Chunk([header for _position, header in batches], data, spans)


def _unpacked(batches: list[tuple[BatchHeader, bytes]]) -> Chunk:
    spans = []
    position = 0
    for _header, body in batches:
        spans.append((position, position + len(body)))
        position += len(body)
    joined = batches[0][1] if len(batches) == 1 else b"".join(body for _header, body in batches)
    return Chunk([header for header, _body in batches], np.frombuffer(joined, dtype=np.uint8), spans)


def read_columns(chunk: Chunk) -> Columns:
    """Read all records of a chunk. Raises `CorruptRecords` where they are not what their headers say."""
    try:
        return _read_columns(chunk)
    except IndexError as error:
        raise CorruptRecords("a record goes on behind the end of its batch") from error


def _read_columns(chunk: Chunk) -> Columns:
    data = chunk.data
    pieces: list[Any] = []
    counts = []
    for header, (begin, end) in zip(chunk.headers, chunk.spans, strict=True):
        count = header.records_count
        if count < 0 or count * _SMALLEST_RECORD > end - begin:
            raise CorruptRecords(f"{count} records in {end - begin} bytes")
        pieces += record_starts(data, begin, end, count)
        counts.append(count)
    starts = np.concatenate(pieces)
    batches = np.repeat(np.arange(len(counts)), counts)
    lengths, at = signed_varints(data, starts, INT)
    ends = at + lengths
    _demand(lengths >= _SMALLEST_RECORD - 1, "a record shorter than any")
    timestamp_deltas, at = signed_varints(data, at + 1, LONG)
    deltas, at = signed_varints(data, at, INT)
    key_starts, key_lengths, at = _field(data, at, ends)
    value_starts, value_lengths, at = _field(data, at, ends)
    _demand(at < ends, "a record without a count of headers")
    _demand((at + 1 == ends) | (data.take(at) != 0), "a record is not as long as it says")
    offsets = per_batch(chunk.headers, "base_offset").take(batches) + deltas
    _demand((deltas >= 0) & (deltas <= per_batch(chunk.headers, "last_offset_delta").take(batches)), "a foreign offset")
    _demand(np.diff(offsets) > 0, "offsets out of order")
    return Columns(
        data=data,
        headers=chunk.headers,
        batches=batches,
        deltas=deltas,
        offsets=offsets,
        timestamps_ms=_timestamps(chunk.headers, batches, timestamp_deltas),
        key_starts=key_starts,
        key_lengths=key_lengths,
        value_starts=value_starts,
        value_lengths=value_lengths,
        behind_values=at,
        ends=ends,
    )


def _field(data: Any, at: Any, ends: Any) -> tuple[Any, Any, Any]:
    """A key or a value: where it lies, how long it is, what lies behind it."""
    lengths, starts = signed_varints(data, at, INT)
    behind = starts + np.maximum(lengths, 0)
    _demand((lengths >= -1) & (behind <= ends), "a key or value longer than its record")
    return starts, lengths, behind


def _demand(holds: Any, otherwise: str) -> None:
    if not holds.all():
        raise CorruptRecords(otherwise)


def per_batch(headers: Sequence[BatchHeader], name: str) -> Any:
    """One field of all headers."""
    return np.array([getattr(header, name) for header in headers], dtype=np.int64)


def _timestamps(headers: Sequence[BatchHeader], batches: Any, deltas: Any) -> Any:
    """Where the broker says when a record was made, all records of a batch have the batch's maximum."""
    base = per_batch(headers, "base_timestamp").take(batches) + deltas
    append_time = np.array([header.log_append_time for header in headers])
    if not append_time.any():
        return base
    return np.where(append_time.take(batches), per_batch(headers, "max_timestamp").take(batches), base)


def sequences(columns: Columns) -> Any:
    """The sequence of each record; -1 where its batch has none. Behind 2^31 - 1 comes 0."""
    base = per_batch(columns.headers, "base_sequence").take(columns.batches)
    return np.where(base < 0, -1, (base + columns.deltas) & _SEQUENCES)


@dataclass(slots=True)
class Headers:
    """The headers of some records, flat: which record each belongs to, where its key and value lie."""

    records: Any
    key_starts: Any
    key_lengths: Any
    value_starts: Any
    value_lengths: Any


def read_headers(columns: Columns, chosen: Any) -> Headers:
    """The headers of the chosen records (positions in the columns), in order. Raises `CorruptRecords`."""
    try:
        return _read_headers(columns, chosen)
    except IndexError as error:
        raise CorruptRecords("a header goes on behind the end of its batch") from error


def _read_headers(columns: Columns, chosen: Any) -> Headers:
    """All first headers, then all second ones …; then put in the order of the records."""
    ends = columns.ends.take(chosen)
    left, at = signed_varints(columns.data, columns.behind_values.take(chosen), INT)
    _demand((left >= 0) & (left <= (ends - at) // 2), "an impossible number of headers")
    rows = np.arange(len(chosen))
    rounds: list[tuple[Any, ...]] = []
    while True:
        finished = left == 0
        _demand(at[finished] == ends[finished], "a record is not as long as it says")
        rows, at, ends, left = (array[~finished] for array in (rows, at, ends, left))
        if not rows.size:
            break
        key_starts, key_lengths, at = _field(columns.data, at, ends)
        _demand(key_lengths >= 0, "a record header without a key")
        value_starts, value_lengths, at = _field(columns.data, at, ends)
        rounds.append((rows, key_starts, key_lengths, value_starts, value_lengths))
        left = left - 1
    if not rounds:
        return Headers(*(np.empty(0, dtype=np.int64) for _ in range(5)))
    joined = [np.concatenate(parts) for parts in zip(*rounds, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return Headers(*(part.take(order) for part in joined))
