"""The columns of an Arrow batch as the sink needs them: bytes and offsets, no Python object per cell.

The stock sink's columns: `value` (string or binary), and, if they are there, `key` (the same), `headers`
(array of struct of `key` string and `value` binary), `topic` (string), `partition` (int). Nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_connector.errors import BadRows

KNOWN = ("key", "value", "headers", "topic", "partition")
_ADVICE = "the sink takes value, key (string or binary), headers, topic (string) and partition (int): select these"


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of strings or binaries: cell i is `data[offsets[i]:offsets[i + 1]]`."""

    data: bytes
    offsets: NDArray[np.int64]
    valid: NDArray[np.bool_] | None
    """None where no cell is null."""


def check_columns(names_and_types: Sequence[tuple[str, str]], *, topic_named: bool) -> None:
    """Look at Spark's schema before anything is written. Types are Spark's simple names."""
    types = dict(names_and_types)
    unknown = [name for name in types if name not in KNOWN]
    if unknown or "value" not in types:
        what = f"unknown columns {', '.join(unknown)}" if unknown else "no column value"
        raise BadRows(f"{what}: {_ADVICE}")
    for name, allowed in (
        ("value", ("string", "binary")),
        ("key", ("string", "binary")),
        ("topic", ("string",)),
        ("partition", ("int",)),
        ("headers", ("array<struct<key:string,value:binary>>",)),
    ):
        if name in types and types[name] not in allowed:
            raise BadRows(f"column {name} is {types[name]}, it must be {' or '.join(allowed)}: cast it")
    if not topic_named and "topic" not in types:
        raise BadRows("no topic: set option topic, or give each row a column topic")


def binaries(batch: pa.RecordBatch, name: str) -> Any:
    """A column of strings or binaries as an Arrow array of large binaries; None where there is none."""
    position = batch.schema.get_field_index(name)
    if position < 0:
        return None
    column = batch.column(position)
    return column if pa.types.is_large_binary(column.type) else column.cast(pa.large_binary())


def cells(column: Any) -> Cells:
    """What is in an array of large binaries."""
    _, offsets, data = column.buffers()
    if offsets is None or not len(column):
        return Cells(b"", np.zeros(len(column) + 1, np.int64), _validity(column))
    all_offsets = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    first, last = int(all_offsets[0]), int(all_offsets[-1])
    body = b"" if data is None else memoryview(data)[first:last].tobytes()
    return Cells(body, all_offsets - first, _validity(column))


def _validity(column: Any) -> NDArray[np.bool_] | None:
    if not column.null_count:
        return None
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of some rows, one behind the other, as arrays of large binaries; and how many each row has."""

    keys: Any
    values: Any
    counts: NDArray[np.int64]


def headers_of(column: Any) -> Headers | None:
    """What is in an array of the column headers; None where no row has any. Raises `BadRows` for one without a key."""
    each = column.flatten()  # Without what may lie below a row that is null.
    if not len(each):
        return None
    keys, values = each.field(0), each.field(1)
    if each.null_count or keys.null_count:
        raise BadRows("a header has no key")
    counts: NDArray[np.int64] = pc.list_value_length(column).fill_null(0).cast(pa.int64()).to_numpy()
    return Headers(keys.cast(pa.large_binary()), values.cast(pa.large_binary()), counts)


def named_partitions(batch: pa.RecordBatch) -> NDArray[np.int64] | None:
    """The column partition with -1 for null; None where the column is not there."""
    position = batch.schema.get_field_index("partition")
    if position < 0:
        return None
    column = batch.column(position)
    named: NDArray[np.int64] = column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if np.any((named < 0) & column.is_valid().to_numpy(zero_copy_only=False)):
        raise BadRows("column partition holds a negative number")
    return named


def rows_by_topic(batch: pa.RecordBatch, topic: str | None) -> list[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in their order. The option goes before the column, as in the stock sink."""
    if topic is not None:
        return [(topic, batch)]
    column = batch.column(batch.schema.get_field_index("topic"))
    if column.null_count:
        raise BadRows("a row has no topic: fill column topic, or set option topic")
    encoded = column.dictionary_encode()
    if len(encoded.dictionary) == 1:
        return [(encoded.dictionary[0].as_py(), batch)]
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    return [
        (name.as_py(), batch.take(pa.array(np.nonzero(indices == number)[0])))
        for number, name in enumerate(encoded.dictionary)
    ]
