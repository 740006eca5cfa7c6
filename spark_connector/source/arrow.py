"""Columns of a chunk as an Arrow record batch, with the schema that Spark's own source has, and more on request.

Keys and values are made by one trick: the bytes of the chunk, with the positions of all keys, values and what lies
between as offsets, are an Arrow array already; taking every fourth of its entries copies the keys, in Arrow's own code.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from protocol.records.batch import CorruptRecords
from spark_connector.source.records import Columns, per_batch, read_headers, sequences

TIMESTAMP = pa.timestamp("us", "UTC")


class Rows:
    """The chosen records of a chunk (positions in its columns), of one partition."""

    def __init__(self, columns: Columns, chosen: Any, topic: str, partition: int) -> None:
        self.columns = columns
        self.chosen = chosen
        self.topic = topic
        self.partition = partition
        self._all = len(chosen) == len(columns.offsets)
        self._cells: Any = None

    def __len__(self) -> int:
        return len(self.chosen)

    def pick(self, array: Any) -> Any:
        """The entries of the chosen records."""
        return array if self._all else array.take(self.chosen)

    def from_batch(self, name: str) -> Any:
        """A field of each record's batch."""
        return per_batch(self.columns.headers, name).take(self.pick(self.columns.batches))

    def cells(self) -> Any:
        """Key, gap, value, gap, key …: all of the chunk as one Arrow array."""
        if self._cells is None:
            found = self.columns
            self._cells = interleaved(
                found.data,
                (found.key_starts, found.key_lengths),
                (found.value_starts, found.value_lengths),
                pa.binary(),
            )
        return self._cells


def interleaved(data: Any, keys: tuple[Any, Any], values: tuple[Any, Any], kind: Any) -> Any:
    """An Arrow array over `data` without copying it; starts and lengths of keys and values say where it is cut."""
    count = len(keys[0])
    offsets = np.empty((count, 4), dtype=np.int32)
    offsets[:, 0] = keys[0]
    offsets[:, 1] = keys[0] + np.maximum(keys[1], 0)
    offsets[:, 2] = values[0]
    offsets[:, 3] = values[0] + np.maximum(values[1], 0)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, max(4 * count - 1, 0), buffers)


def taken(cells: Any, places: Any, nulls: Any, kind: Any) -> Any:
    """Some entries of an interleaved array, copied into one that stands alone."""
    found = cells.take(pa.array(places))
    _validity, offsets, data = found.buffers()
    return pa.Array.from_buffers(kind, len(found), [_validity_of(nulls), offsets, data])


def _validity_of(nulls: Any) -> Any:
    """Arrow's bitmap; none where nothing is null."""
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def numbers(values: Any, kind: Any, nulls: Any = None) -> Any:
    """A numpy array, which must have the width of the Arrow type, as an Arrow array."""
    bitmap = None if nulls is None else _validity_of(nulls)
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])


def _key(rows: Rows) -> Any:
    return taken(rows.cells(), 4 * rows.chosen, rows.pick(rows.columns.key_lengths) < 0, pa.binary())


def _value(rows: Rows) -> Any:
    return taken(rows.cells(), 4 * rows.chosen + 2, rows.pick(rows.columns.value_lengths) < 0, pa.binary())


def _topic(rows: Rows) -> Any:
    return pa.repeat(pa.scalar(rows.topic, pa.string()), len(rows))


def _partition(rows: Rows) -> Any:
    return numbers(np.full(len(rows), rows.partition, dtype=np.int32), pa.int32())


def _offset(rows: Rows) -> Any:
    return numbers(rows.pick(rows.columns.offsets), pa.int64())


def _timestamp(rows: Rows) -> Any:
    return numbers(rows.pick(rows.columns.timestamps_ms) * 1000, TIMESTAMP)


def _timestamp_type(rows: Rows) -> Any:
    return numbers(rows.from_batch("log_append_time").astype(np.int32), pa.int32())


def _headers(rows: Rows) -> Any:
    """Null where a record has none, as in Spark's own source."""
    found = read_headers(rows.columns, rows.chosen)
    count = len(found.records)
    keys_and_values = (found.key_starts, found.key_lengths), (found.value_starts, found.value_lengths)
    cells = interleaved(rows.columns.data, *keys_and_values, pa.binary())
    places = 4 * np.arange(count)
    keys = taken(cells, places, np.zeros(count, dtype=bool), pa.string())
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptRecords("the key of a header is not UTF-8") from error
    values = taken(cells, places + 2, found.value_lengths < 0, pa.binary())
    each = np.bincount(found.records, minlength=len(rows))
    ends = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(each, out=ends[1:])
    pairs = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    buffers = [_validity_of(each == 0), pa.py_buffer(ends)]
    return pa.Array.from_buffers(pa.list_(pairs.type), len(rows), buffers, children=[pairs])


def _producer_id(rows: Rows) -> Any:
    ids = rows.from_batch("producer_id")
    return numbers(ids, pa.int64(), ids < 0)


def _producer_epoch(rows: Rows) -> Any:
    epochs = rows.from_batch("producer_epoch").astype(np.int32)
    return numbers(epochs, pa.int32(), epochs < 0)


def _sequence(rows: Rows) -> Any:
    found = rows.pick(sequences(rows.columns)).astype(np.int32)
    return numbers(found, pa.int32(), found < 0)


def _transactional(rows: Rows) -> Any:
    return pa.array(rows.from_batch("is_transactional").astype(bool))


class Field(NamedTuple):
    """A column that the source knows: its type in Spark's words, and how it is made."""

    ddl: str
    make: Callable[[Rows], Any]


FIELDS = {
    "key": Field("BINARY", _key),
    "value": Field("BINARY", _value),
    "topic": Field("STRING", _topic),
    "partition": Field("INT", _partition),
    "offset": Field("BIGINT", _offset),
    "timestamp": Field("TIMESTAMP", _timestamp),
    "timestampType": Field("INT", _timestamp_type),
}
"""What Spark's own source has."""
HEADERS = {"headers": Field("ARRAY<STRUCT<key: STRING, value: BINARY>>", _headers)}
TRANSACTIONS = {
    "producerId": Field("BIGINT", _producer_id),
    "producerEpoch": Field("INT", _producer_epoch),
    "sequence": Field("INT", _sequence),
    "transactional": Field("BOOLEAN", _transactional),
}
"""Null where a record comes from a producer without an id."""
BYTES = {"keyBytes": Field("BINARY", _key), "valueBytes": Field("BINARY", _value)}
"""As they came, where `key` and `value` have types: what cannot be read is no more in those."""
KNOWN = FIELDS | HEADERS | TRANSACTIONS | BYTES


def ddl(*, headers: bool, transactions: bool, bytes_too: bool, typed: Mapping[str, str]) -> str:
    """The schema of a frame whose user named none; `typed` are the columns that a registry has types for."""
    asked = ((headers, HEADERS), (transactions, TRANSACTIONS), (bytes_too, BYTES))
    chosen = dict(FIELDS)
    for is_asked, fields in asked:
        chosen |= fields if is_asked else {}
    return ", ".join(f"{name} {typed.get(name, field.ddl)}" for name, field in chosen.items())


def record_batch(rows: Rows, schema: Any) -> Any:
    """The rows as a `pyarrow.RecordBatch` with the columns of `schema`; nothing is made that it does not name."""
    made = [KNOWN[field.name].make(rows) for field in schema]
    fitting = [
        array if array.type.equals(field.type) else array.cast(field.type)
        for array, field in zip(made, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(fitting, schema=schema)
