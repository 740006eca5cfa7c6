"""Rows into record batches: the loop that everything a sink writes goes through.

Lengths and small numbers are looked up in a table of zig-zag varints, and a record is put together from slices:
no object per record. Producer id, epoch, sequence and checksum are left for the `Sender` that knows them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.primitives import append_varlong
from protocol.records.batch import HEADER, MAGIC, TRANSACTIONAL
from protocol.records.compression import compress
from spark_connector.errors import BadRows
from spark_connector.sink.columns import Cells, cells, header_rows, named_partitions
from spark_connector.sink.partitioner import murmur2_all, partitions_for


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varlong(out, value)
    return bytes(out)


_TABLE = [_varint(value) for value in range(1 << 14)]
_NULL = _varint(-1)
_START = b"\x00\x00"
"""No attributes, no difference to the batch's timestamp."""


def varint(value: int) -> bytes:
    """A length or count as a zig-zag varint."""
    return _TABLE[value] if value < len(_TABLE) else _varint(value)


@dataclass(slots=True)
class Encoder:
    """How rows of one sink become batches. Keeps the place in the round of rows that have no key."""

    codec: int
    batch_bytes: int
    turn: int = 0

    def batches(self, rows: pa.RecordBatch, partitions: int, timestamp_ms: int) -> Iterator[tuple[int, bytearray]]:
        """(partition, batch) for the rows of one topic. Rows of a partition keep their order."""
        values = cells(rows, "value")
        assert values is not None, "checked with the schema"
        keys = cells(rows, "key")
        tails = _header_tails(header_rows(rows))
        chosen = self._partitions(rows, keys, partitions)
        order = np.argsort(chosen, kind="stable")
        ends = np.cumsum(np.bincount(chosen, minlength=partitions)).tolist()
        begin = 0
        for partition, end in enumerate(ends):
            if end > begin:
                for batch in self._fill(order[begin:end], values, keys, tails, timestamp_ms):
                    yield partition, batch
            begin = end

    def _partitions(self, rows: pa.RecordBatch, keys: Cells | None, count: int) -> NDArray[np.int64]:
        """The row's own partition; else by its key; else the partition whose turn it is, which changes per call."""
        named = named_partitions(rows)
        if named is not None and int(named.max(initial=-1)) >= count:
            raise BadRows(f"column partition names {int(named.max())}, the topic has {count} partitions")
        if named is not None and int(named.min(initial=0)) >= 0:
            return named
        self.turn += 1
        chosen = np.full(rows.num_rows, self.turn % count, np.int64)
        if keys is not None:
            data = np.frombuffer(keys.data, np.uint8)
            hashed = partitions_for(murmur2_all(data, keys.offsets[:-1], keys.offsets[1:]), count)
            chosen = hashed if keys.valid is None else np.where(keys.valid, hashed, chosen)
        if named is not None:
            chosen = np.where(named >= 0, named, chosen)
        return chosen

    def _fill(
        self,
        which: NDArray[np.intp],
        values: Cells,
        keys: Cells | None,
        tails: Sequence[bytes] | None,
        timestamp_ms: int,
    ) -> Iterator[bytearray]:
        """Batches of some rows, cut where they become too large."""
        heads, bodies = _parts(values, which)
        keys_of = (
            [_NULL] * len(which)
            if keys is None
            else [head + key for head, key in zip(*_parts(keys, which), strict=True)]
        )
        tail_parts = [b"\x00"] * len(which) if tails is None else [tails[row] for row in which.tolist()]
        pieces: list[bytes] = []
        add = pieces.append
        size = delta = 0
        table, limit = _TABLE, self.batch_bytes
        for key, head, body, tail in zip(keys_of, heads, bodies, tail_parts, strict=True):
            front = _START + (table[delta] if delta < 16384 else _varint(delta)) + key + head
            length = len(front) + len(body) + len(tail)
            size += length
            if size > limit and pieces:
                yield self._assemble(pieces, delta, timestamp_ms)
                pieces = []
                add = pieces.append
                front, delta = _START + b"\x00" + key + head, 0
                size = length = len(front) + len(body) + len(tail)
            add((table[length] if length < 16384 else _varint(length)) + front)
            add(body)
            add(tail)
            delta += 1
        yield self._assemble(pieces, delta, timestamp_ms)

    def _assemble(self, pieces: Sequence[bytes], count: int, timestamp_ms: int) -> bytearray:
        attributes = self.codec | TRANSACTIONAL
        batch = bytearray(
            HEADER.pack(0, 0, -1, MAGIC, 0, attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
        )
        body = b"".join(pieces)
        batch += compress(self.codec, body) if self.codec else body
        return batch


def _parts(column: Cells, which: NDArray[np.intp]) -> tuple[list[bytes], list[bytes]]:
    """Encoded lengths and bytes of some cells; null is a length of -1 and no bytes."""
    data, table = column.data, _TABLE
    starts, ends = column.offsets[which], column.offsets[which + 1]
    heads = [table[n] if n < 16384 else _varint(n) for n in (ends - starts).tolist()]
    bodies = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    if column.valid is not None:
        for place in np.nonzero(~column.valid[which])[0].tolist():
            heads[place], bodies[place] = _NULL, b""
    return heads, bodies


def _header_tails(rows: Sequence[Any] | None) -> list[bytes] | None:
    """The headers of each row, encoded, count and all."""
    return None if rows is None else [_headers(row or ()) for row in rows]


def _headers(row: Sequence[Any]) -> bytes:
    out = bytearray(varint(len(row)))
    for header in row:
        if header is None or header["key"] is None:
            raise BadRows("a header has no key")
        key = header["key"].encode()
        out += varint(len(key)) + key
        value = header["value"]
        out += _NULL if value is None else varint(len(value)) + value
    return bytes(out)
