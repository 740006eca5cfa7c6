"""Arrow columns become record batches that say the same: order, nulls, headers, cuts, partitions."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from protocol.records.batch import HEADER, read_header, seal
from protocol.records.compression import NAMES
from protocol.records.record import Record, records_of
from spark_connector.errors import BadRows
from spark_connector.sink.columns import check_columns, rows_by_topic
from spark_connector.sink.encode import Encoder
from spark_connector.sink.partitioner import murmur2, murmur2_all, partitions_for

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
JAVA = {
    b"": 275646681,
    b"1": -1993445489 & 0xFFFFFFFF,
    b"21": -973932308 & 0xFFFFFFFF,
    b"foobar": -790332482 & 0xFFFFFFFF,
    b"a-little-bit-long-string": -985981536 & 0xFFFFFFFF,
    b"a-little-bit-longer-string": -1486304829 & 0xFFFFFFFF,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971 & 0xFFFFFFFF,
    b"abc": 479470107,
}
"""Hashes as Java's `Utils.murmur2` gives them."""


def rows(**columns: Any) -> Any:
    types = {"headers": HEADERS, "partition": pa.int32(), "topic": pa.string()}
    return pa.record_batch({name: pa.array(cells, types.get(name, pa.binary())) for name, cells in columns.items()})


def written(batch: Any, partitions: int = 1, **options: Any) -> dict[int, list[Record]]:
    """What a consumer would read, by partition."""
    encoder = Encoder(options.get("codec", 0), options.get("batch_bytes", 1 << 20))
    found: dict[int, list[Record]] = {}
    for partition, encoded in encoder.batches(batch, partitions, 1000):
        seal(encoded)
        assert read_header(encoded).records_count == read_header(encoded).last_offset_delta + 1
        found.setdefault(partition, []).extend(records_of(encoded))
    return found


@pytest.mark.parametrize("key", JAVA)
def test_murmur2_is_that_of_java(key: bytes) -> None:
    assert murmur2(key) == JAVA[key]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=50))
def test_murmur2_over_columns_is_murmur2_of_each_key(keys: list[bytes]) -> None:
    ends = np.cumsum([len(key) for key in keys])
    starts = ends - [len(key) for key in keys]
    hashes = murmur2_all(np.frombuffer(b"".join(keys), np.uint8), starts, ends)
    assert hashes.tolist() == [murmur2_of_kafka_python(key) & 0xFFFFFFFF for key in keys] == [*map(murmur2, keys)]
    expected = [(murmur2_of_kafka_python(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert partitions_for(hashes, 7).tolist() == expected


cells = st.none() | st.binary(max_size=300)
headers = st.none() | st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(cells, cells, headers), min_size=1, max_size=40),
    st.integers(1, 400),
    st.sampled_from(range(len(NAMES))),
)
def test_what_is_written_is_what_was_in_the_columns(
    content: list[tuple[Any, Any, Any]], batch_bytes: int, codec: int
) -> None:
    """At any batch size and codec, in order; null is null and empty is empty."""
    batch = rows(
        key=[key for key, _, _ in content],
        value=[value for _, value, _ in content],
        headers=[h and [{"key": key, "value": value} for key, value in h] for _, _, h in content],
    )
    (records,) = written(batch, codec=codec, batch_bytes=batch_bytes).values()
    assert [(record.key, record.value, record.headers) for record in records] == [
        (key, value, tuple(h or ())) for key, value, h in content
    ]
    assert {record.timestamp_ms for record in records} == {1000}


def test_headers_of_slices_and_below_rows_that_are_null() -> None:
    """Arrow may keep headers for a row that has none, and a batch may be cut out of a larger one."""
    each = pa.StructArray.from_arrays(
        [pa.array(list("abcde")), pa.array([b"1", None, b"", b"4", b"5"])], ["key", "value"]
    )
    column = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 3, 5], pa.int32()), each, mask=pa.array([False, True, False, False])
    )
    batch = pa.record_batch({"value": pa.array([b"w", b"x", b"y", b"z"]), "headers": column})
    found = {record.value: record.headers for (records,) in [written(batch).values()] for record in records}
    assert found == {b"w": (("a", b"1"), ("b", None)), b"x": (), b"y": (), b"z": (("d", b"4"), ("e", b"5"))}
    (records,) = written(batch.slice(2)).values()
    assert [record.headers for record in records] == [(), (("d", b"4"), ("e", b"5"))]
    long = [{"key": "k" * 20_000, "value": b"v" * 70_000}] * 70
    (records,) = written(rows(value=[b"a", b"b"], headers=[long, None])).values()
    assert [len(record.headers) for record in records] == [70, 0]
    for broken in ([None], [{"key": None, "value": b"x"}]):
        with pytest.raises(BadRows, match="a header has no key"):
            written(rows(value=[b"a"], headers=[broken]))


def test_long_batches_and_long_records() -> None:
    """Numbers beyond the table of varints."""
    many = [b"%d" % number for number in range(40_000)]
    (records,) = written(rows(value=many), batch_bytes=64 << 20).values()
    assert [record.value for record in records] == many
    assert [record.offset for record in records] == list(range(40_000))
    long = [b"x" * 100_000, b"y"]
    (records,) = written(rows(value=long), batch_bytes=1000).values()
    assert [record.value for record in records] == long


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), min_size=1, max_size=60), st.integers(1, 900))
def test_batches_are_full_and_no_larger_than_they_may_be(content: list[tuple[int, int]], batch_bytes: int) -> None:
    """But for one record that is larger by itself. A number of two bytes may turn out to be one of one byte."""
    batch = rows(value=[bytes(size) for _, size in content], partition=[partition for partition, _ in content])
    found: dict[int, list[bytearray]] = {}
    for partition, encoded in Encoder(0, batch_bytes).batches(batch, 3, 1000):
        found.setdefault(partition, []).append(encoded)
    for partition, batches in found.items():
        sizes = [len(encoded) - HEADER.size for encoded in batches]
        counts = [read_header(encoded).records_count for encoded in batches]
        assert sum(counts) == sum(one == partition for one, _ in content)
        firsts = [size for one, size in content if one == partition]
        for at, (size, count) in enumerate(zip(sizes, counts, strict=True)):
            assert size <= batch_bytes or count == 1
            if at + 1 < len(sizes):  # the first record of the next one, with its numbers, would not have fitted
                assert size + firsts[sum(counts[: at + 1])] + 10 + count > batch_bytes


def test_lengths_at_the_edges_of_varints() -> None:
    """Of one to three bytes, and where the table of varints ends; for a key, a value and the whole record."""
    edges = (1 << 6, 1 << 13, 1 << 14, 1 << 20)
    for around in edges:
        cells = [b"x" * length for length in range(around - 8, around + 2)]
        values: list[bytes | None] = [*cells, None]
        (records,) = written(rows(value=values), batch_bytes=64 << 20).values()
        assert [record.value for record in records] == values
        ((record,),) = written(rows(key=[cells[-2]], value=[b""])).values()
        assert (record.key, record.value) == (cells[-2], b"")


def test_rows_keep_their_order_and_keys_their_partition() -> None:
    keys = [b"k%d" % (number % 13) for number in range(500)]
    values = [b"%03d" % number for number in range(500)]
    found = written(rows(key=keys, value=values), partitions=5)
    for partition, records in found.items():
        assert [record.value for record in records] == sorted(record.value for record in records)
        assert {(murmur2(record.key) & 0x7FFFFFFF) % 5 for record in records} == {partition}
    assert sum(map(len, found.values())) == 500


def test_a_named_partition_wins_over_the_key() -> None:
    batch = rows(key=[b"foobar", b"foobar"], value=[b"a", b"b"], partition=[4, None])
    by_key = (murmur2(b"foobar") & 0x7FFFFFFF) % 6
    assert {partition: [r.value for r in records] for partition, records in written(batch, 6).items()} == {
        4: [b"a"],
        by_key: [b"b"],
    }
    for wrong in (6, -1):
        with pytest.raises(BadRows, match="partition"):
            written(rows(value=[b"a"], partition=[wrong]), 6)


def test_rows_without_keys_stay_together_and_take_turns() -> None:
    encoder = Encoder(0, 1 << 20)
    batch = rows(value=[b"a", b"b"])
    turns = [[partition for partition, _ in encoder.batches(batch, 3, 0)] for _ in range(3)]
    assert sorted(turns) == [[0], [1], [2]]


def test_slices_of_arrow_columns() -> None:
    """Spark hands on slices: offsets that do not begin at 0, validity bits in the middle of a byte."""
    values = [None if number % 3 == 0 else b"%d" % number for number in range(50)]
    (records,) = written(rows(value=values, key=values).slice(11, 20)).values()
    assert [record.value for record in records] == values[11:31]
    strings = pa.record_batch({"value": pa.array(["a", "ü", None])}).slice(1)
    assert [record.value for record in next(iter(written(strings).values()))] == ["ü".encode(), None]


def test_the_topic_of_each_row() -> None:
    batch = rows(topic=["b", "a", "b"], value=[b"1", b"2", b"3"])
    split = {topic: part.column(1).to_pylist() for topic, part in rows_by_topic(batch, None)}
    assert split == {"b": [b"1", b"3"], "a": [b"2"]}
    assert [topic for topic, _ in rows_by_topic(batch, "named")] == ["named"]
    with pytest.raises(BadRows, match="topic"):
        rows_by_topic(rows(topic=["a", None], value=[b"", b""]), None)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([("key", "string")], "no column value"),
        ([("value", "bigint")], "cast it"),
        ([("value", "binary"), ("headers", "string")], "headers"),
        ([("value", "binary"), ("offset", "bigint")], "unknown columns offset"),
    ],
)
def test_columns_that_are_refused(columns: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(BadRows, match=words):
        check_columns(columns, topic_named=True)


def test_a_topic_must_come_from_somewhere() -> None:
    check_columns([("value", "string"), ("topic", "string")], topic_named=False)
    with pytest.raises(BadRows, match="topic"):
        check_columns([("value", "string")], topic_named=False)
