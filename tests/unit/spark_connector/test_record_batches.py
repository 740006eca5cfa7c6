"""Rows become record batches of a good size, however small Spark's are, and stay in order."""

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import pyarrow as pa

from protocol.records.batch import read_header, seal
from protocol.records.record import records_of
from spark_connector.errors import BadRows
from spark_connector.sink.record_batches import gathered, pieces, record_batches
from spark_connector.sink.settings import SinkSettings


def settings(topic: str | None = "t", **more: str) -> SinkSettings:
    given = {"kafka.bootstrap.servers": "nowhere:1"} | ({} if topic is None else {"topic": topic})
    return SinkSettings.of(given | {name.replace("__", "."): value for name, value in more.items()}, streaming=True)


def batch_of(values: list[bytes], **columns: Any) -> Any:
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})


def test_rows_are_gathered_until_there_are_enough_and_stay_in_order() -> None:
    arrived = [batch_of([b"%04d" % number]) for number in range(10)]
    empty = batch_of([])
    found = list(gathered([empty, *arrived, empty], lambda: 4 * arrived[0].nbytes))
    assert [len(batch) for batch in found] == [4, 4, 2]
    assert [value for batch in found for value in batch.column(0).to_pylist()] == [b"%04d" % n for n in range(10)]
    assert list(gathered([empty], lambda: 1)) == []


def test_a_batch_that_is_large_enough_is_left_as_it_is() -> None:
    large = batch_of([b"x" * 100])
    assert next(gathered(iter([large, large]), lambda: 100)) is large


def test_pieces_are_all_rows_in_order() -> None:
    rows = batch_of([b"%03d" % number for number in range(100)])
    found = list(pieces(rows, rows.nbytes // 10))
    assert len(found) == 10
    assert pa.Table.from_batches(found).column(0).to_pylist() == rows.column(0).to_pylist()
    assert [len(piece) for piece in pieces(batch_of([b"x" * 1000, b"y"]), 1)] == [1, 1]


def test_hundreds_of_partitions_get_few_batches() -> None:
    """Of 40 Arrow batches that have a few rows for each partition."""
    keys = [b"%06d" % number for number in range(40_000)]
    arrived = [
        batch_of([b"v" * 50] * 1000, key=pa.array(keys[begin : begin + 1000], pa.binary()))
        for begin in range(0, len(keys), 1000)
    ]
    asked: list[str] = []

    def partitions_of(topic: str) -> int:
        asked.append(topic)
        return 400

    (first, *rest) = record_batches(arrived, settings(), partitions_of, 0)
    assert asked == ["t"]
    assert len(first) <= 400, "what comes before the partitions are known"
    assert len(rest) == 1
    placed = [partition for (_, partition), _ in rest[0]]
    assert len(placed) == len(set(placed)) == 400
    for _, batch in (*first, *rest[0]):
        seal(batch)
    assert sorted(record.key or b"" for _, batch in (*first, *rest[0]) for record in records_of(batch)) == keys


def test_a_batch_is_no_larger_than_it_may_be() -> None:
    arrived = [batch_of([b"v" * 100] * 5000, key=pa.array([b"k"] * 5000, pa.binary())) for _ in range(3)]
    found = [
        batch
        for group in record_batches(arrived, settings(kafka__batch__size="20000"), lambda _: 4, 0)
        for batch in group
    ]
    assert max(len(batch) for _, batch in found) < 20_000 + 100
    assert sum(read_header(batch).records_count for _, batch in found) == 15_000


def test_half_of_the_memory_is_enough() -> None:
    arrived = [batch_of([b"v" * 100] * 100, key=pa.array([b"k"] * 100, pa.binary())) for _ in range(30)]
    little = settings(kafka__buffer__memory=str(2 * 10 * arrived[0].nbytes))
    groups = list(record_batches(arrived, little, lambda _: 400, 0))
    assert [sum(read_header(batch).records_count for _, batch in group) for group in groups] == [1000, 1000, 1000]


def test_rows_that_say_nothing_go_from_partition_to_partition() -> None:
    arrived = [batch_of([b"v" * 100] * 100) for _ in range(4)]
    small = settings(kafka__batch__size=str(arrived[0].nbytes // 2))
    groups = list(record_batches(arrived, small, lambda _: 4, 6))
    assert [{partition for (_, partition), _ in group} for group in groups] == [
        {n % 4} for n in range(7, 7 + len(groups))
    ]
    assert len(groups) >= 8


def test_what_a_topic_is_refused_for_is_said() -> None:
    def refused(topic: str) -> int:
        raise BadRows(f"not {topic}")

    rows = batch_of([b"a"], topic=pa.array(["elsewhere"]))
    with pytest.raises(BadRows, match="not elsewhere"):
        list(record_batches([rows], settings(None), refused, 0))
