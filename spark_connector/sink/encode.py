"""Rows into record batches, whole columns at a time: no object per record.

Arrow puts each record together (`binary_join_element_wise`), the first of a batch behind the batch's header. That
leaves all of them one behind the other in one buffer, sorted by partition, and a batch is a slice of it. The numbers in
a record are columns, too, looked up in a table of zig-zag varints. Producer id, epoch, sequence, length and checksum
are left for the `Sender` that knows them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.primitives import append_varlong
from protocol.records.batch import HEADER, MAGIC, TRANSACTIONAL
from protocol.records.compression import compress
from spark_connector.errors import BadRows
from spark_connector.sink.columns import Headers, binaries, cells, headers_of, named_partitions
from spark_connector.sink.partitioner import murmur2_all, partitions_for


def varint(value: int) -> bytes:
    """A length or count as a zig-zag varint."""
    out = bytearray()
    append_varlong(out, value)
    return bytes(out)


_KNOWN = 1 << 14
_TABLE = pa.array([*map(varint, range(_KNOWN)), varint(-1)], pa.large_binary())
"""The varints of small numbers; at the end that of -1, which Python and we count from behind."""
_STARTS = pa.scalar(b"\x00\x00", pa.large_binary())
"""No attributes, no difference to the batch's timestamp."""
_NO_HEADERS = pa.scalar(b"\x00", pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())


def varints(numbers: NDArray[np.int64]) -> Any:
    """A column of zig-zag varints, of lengths from -1 on."""
    if int(numbers.max(initial=0)) >= _KNOWN:
        return pa.array(map(varint, numbers.tolist()), pa.large_binary())
    return _TABLE.take(pa.array(np.where(numbers < 0, _KNOWN, numbers)))


def varint_sizes(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """How long the varint of each number from -1 on is: seven bits to a byte, one of all for the sign."""
    sizes: NDArray[np.int64] = sum((numbers >= 1 << bits for bits in (6, 13, 20, 27)), np.ones(len(numbers), np.int64))
    return sizes


@dataclass(slots=True)
class Encoder:
    """How rows of one sink become batches.

    Rows without key and partition take turns, all rows of a call together; `turn` is the place in the round.
    """

    codec: int
    batch_bytes: int
    turn: int = 0

    def batches(self, rows: pa.RecordBatch, partitions: int, timestamp_ms: int) -> Iterator[tuple[int, bytearray]]:
        """(partition, batch) for the rows of one topic. Rows of a partition keep their order."""
        placed, batches = self.columns(rows, partitions, timestamp_ms)
        data = memoryview(batches.buffers()[2])
        places = np.frombuffer(batches.buffers()[1], np.int64, len(batches) + 1).tolist()
        for partition, begin, end in zip(placed, places[:-1], places[1:], strict=True):
            yield partition, bytearray(data[begin:end])

    def columns(self, rows: pa.RecordBatch, partitions: int, timestamp_ms: int) -> tuple[list[int], Any]:
        """The same as columns: the partition of each batch, and the batches as an Arrow array of large binaries."""
        values, keys = binaries(rows, "value"), binaries(rows, "key")
        assert values is not None, "checked with the schema"
        chosen = self._partitions(rows, keys, partitions)
        columns = [keys, values, _header_tails(rows)]
        if np.any(chosen[:-1] > chosen[1:]):  # Rows of one partition, as from a topic, are in order as they come.
            # Sixteen bits are sorted by counting.
            order = pa.array(np.argsort(chosen.astype(np.uint16) if partitions < 1 << 16 else chosen, kind="stable"))
            columns = [None if column is None else column.take(order) for column in columns]
        records = _Records.of(*columns)
        cuts, placed = records.cut(np.bincount(chosen, minlength=partitions), self.batch_bytes)
        headers = [self._header(end - begin, timestamp_ms) for begin, end in pairwise(cuts)]
        places, data = records.encoded(cuts, headers)
        if self.codec:
            whole = memoryview(data)
            compressed = [
                header + compress(self.codec, whole[begin + HEADER.size : end])
                for header, begin, end in zip(headers, places[:-1].tolist(), places[1:].tolist(), strict=True)
            ]
            return placed, pa.array(compressed, pa.large_binary())
        return placed, pa.Array.from_buffers(pa.large_binary(), len(placed), [None, pa.py_buffer(places), data])

    def _partitions(self, rows: pa.RecordBatch, keys: Any, count: int) -> NDArray[np.int64]:
        """The row's own partition; else by its key; else as the head of this class says."""
        named = named_partitions(rows)
        if named is not None and int(named.max(initial=-1)) >= count:
            raise BadRows(f"column partition names {int(named.max())}, the topic has {count} partitions")
        if named is not None and int(named.min(initial=0)) >= 0:
            return named
        chosen = np.full(rows.num_rows, -1, np.int64) if named is None else named.copy()
        if keys is not None:
            found = cells(keys)
            hashes = murmur2_all(np.frombuffer(found.data, np.uint8), found.offsets[:-1], found.offsets[1:])
            unplaced = chosen < 0 if found.valid is None else (chosen < 0) & found.valid
            chosen = np.where(unplaced, partitions_for(hashes, count), chosen)
        left = np.nonzero(chosen < 0)[0]
        if len(left):
            self.turn += 1
            chosen[left] = self.turn % count
        return chosen

    def _header(self, count: int, timestamp_ms: int) -> bytes:
        attributes = self.codec | TRANSACTIONAL
        return HEADER.pack(0, 0, -1, MAGIC, 0, attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)


@dataclass(frozen=True, slots=True)
class _Records:
    """Records that are nearly made: their place in a batch is missing, and with it their length.

    length varint | 00 00 | place varint | key length varint | key | value length varint | value | headers
    """

    parts: tuple[Any, ...]
    """From the key's length on."""
    sizes: NDArray[np.int64]
    """Of attributes, timestamp and parts."""

    @classmethod
    def of(cls, keys: Any, values: Any, tails: Any) -> "_Records":
        key_lengths = np.full(len(values), -1, np.int64) if keys is None else _lengths(keys)
        value_lengths = _lengths(values)
        sizes = 2 + varint_sizes(key_lengths) + varint_sizes(value_lengths)
        sizes += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
        sizes += 1 if tails is None else _lengths(tails)
        key = (varints(key_lengths), *(() if keys is None else (keys.fill_null(b""),)))
        value = (varints(value_lengths), values.fill_null(b""))
        return cls((*key, *value, _NO_HEADERS if tails is None else tails), sizes)

    def cut(self, counts: NDArray[np.int64], most_bytes: int) -> tuple[list[int], list[int]]:
        """Where batches begin and end, and the partition of each. `counts` says how many records each partition has. A
        batch has no more than `most_bytes`, or one record.
        """
        sizes = self.sizes + varint_sizes(counts.max(keepdims=True))  # a place is a number below that
        ends = np.cumsum(sizes + varint_sizes(sizes))
        cuts, placed = [0], []
        for partition, end in enumerate(np.cumsum(counts).tolist()):
            while (begin := cuts[-1]) < end:
                before = int(ends[begin - 1]) if begin else 0
                fitting = int(np.searchsorted(ends, before + most_bytes, side="right"))
                cuts.append(min(end, max(begin + 1, fitting)))
                placed.append(partition)
        return cuts, placed

    def encoded(self, cuts: Sequence[int], headers: Sequence[bytes]) -> tuple[NDArray[np.int64], Any]:
        """Batches between these cuts, each behind its header: where they begin and end, and the buffer of all."""
        begins = np.array(cuts[:-1], np.int64)
        numbers = np.arange(len(self.sizes)) - np.repeat(begins, np.diff(np.array(cuts, np.int64)))
        which = np.zeros(len(self.sizes), np.int64)
        which[begins] = np.arange(1, len(cuts))
        fronts = pa.array([b"", *headers], pa.large_binary()).take(pa.array(which))
        lengths = varints(self.sizes + varint_sizes(numbers))
        made = pc.binary_join_element_wise(fronts, lengths, _STARTS, varints(numbers), *self.parts, _NOTHING)
        _, offsets, data = made.buffers()
        return np.frombuffer(offsets, np.int64, len(made) + 1)[cuts], data


def _lengths(column: Any) -> NDArray[np.int64]:
    """Of each cell; -1 for null."""
    lengths: NDArray[np.int64] = pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    return lengths


def _header_tails(rows: pa.RecordBatch) -> Any:
    """The headers of each row, encoded, count and all; None where no row has any."""
    position = rows.schema.get_field_index("headers")
    found = None if position < 0 else headers_of(rows.column(position))
    if found is None:
        return None
    _, offsets, data = _encoded_headers(found).buffers()
    # Those of a row lie one behind the other, and so they are one cell.
    ends = np.concatenate(([0], np.cumsum(found.counts)))
    bounds = np.frombuffer(offsets, np.int64, len(found.keys) + 1)[ends]
    of_rows = pa.Array.from_buffers(pa.large_binary(), rows.num_rows, [None, pa.py_buffer(bounds), data])
    return pc.binary_join_element_wise(varints(found.counts), of_rows, _NOTHING)


def _encoded_headers(found: Headers) -> Any:
    """Each header: key length varint | key | value length varint | value."""
    values = found.values.fill_null(b"")
    key_lengths, value_lengths = varints(_lengths(found.keys)), varints(_lengths(found.values))
    return pc.binary_join_element_wise(key_lengths, found.keys, value_lengths, values, _NOTHING)
