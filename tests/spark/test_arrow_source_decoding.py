"""From record batches to Arrow, without Spark and without a broker: what the decoder makes of random logs is what
record by record reading makes of them, and the oracle of read_committed consumers.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from protocol.messages.fetch import AbortedTransaction, PartitionData  # noqa: E402
from protocol.records.batch import CorruptRecords, headers_in, place, read_header  # noqa: E402
from protocol.records.control import end_transaction_marker  # noqa: E402
from protocol.records.record import NewRecord, Record, TimestampType, build_batch, records_of  # noqa: E402
from spark_connector.source import filters, records, varints  # noqa: E402
from spark_connector.source.arrow import KNOWN, TIMESTAMP  # noqa: E402
from spark_connector.source.errors import CannotRead  # noqa: E402
from spark_connector.source.ranges import OffsetRange  # noqa: E402
from spark_connector.source.reading import RangeReader  # noqa: E402
from spark_connector.source.settings import settings_of  # noqa: E402
from tests.harness.read_committed_oracle import committed_records  # noqa: E402
from tests.harness.refilling import refill_batch  # noqa: E402

TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "sequence": pa.int32(),
    "transactional": pa.bool_(),
    "keyBytes": pa.binary(),
    "valueBytes": pa.binary(),
}
SCHEMA = pa.schema(list(TYPES.items()))
COMMITTED = settings_of({"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"})
UNCOMMITTED = replace(COMMITTED, read_committed=False)


def test_every_column_has_a_type_here() -> None:
    assert set(KNOWN) == set(TYPES)


@dataclass
class Log:
    """A partition's log as a broker would hand it out, and the list of its aborted transactions."""

    data: bytearray = field(default_factory=bytearray)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer id, first offset, last offset."""
    end: int = 0

    def append(self, batch: bytes) -> int:
        placed = bytearray(batch)
        place(placed, self.end, 0)
        header = read_header(placed)
        self.data += placed
        self.end = header.next_offset
        return header.base_offset

    def list_for(self, begin: int) -> list[AbortedTransaction]:
        found = [AbortedTransaction(producer_id=p, first_offset=f) for p, f, last in self.aborted if last >= begin]
        return sorted(found, key=lambda entry: entry.first_offset)


def some_bytes(rng: random.Random) -> bytes | None:
    size = rng.choice([0, 1, 5, 63, 64, 65, 100, 300, 9000])
    return None if rng.random() < 0.1 else rng.randbytes(size)


def some_records(rng: random.Random, count: int) -> list[NewRecord]:
    """Of one shape, or of all kinds."""
    now = rng.randrange(1 << 41)
    if rng.random() < 0.5:
        size = rng.choice([0, 10, 100, 8191])
        return [NewRecord(rng.randbytes(size), b"%04d" % number, now + number) for number in range(count)]
    return [
        NewRecord(
            some_bytes(rng),
            some_bytes(rng),
            now + rng.randrange(-100_000, 100_000),
            tuple((f"h{n}", some_bytes(rng)) for n in range(rng.choice([0, 0, 0, 1, 2, 70]))),
        )
        for _ in range(count)
    ]


def random_log(rng: random.Random, batches: int, *, most_records: int = 60) -> Log:
    """Transactions of several producers among each other, of all codecs, with plain batches between."""
    log = Log()
    open_at: dict[int, int] = {}
    sequences: dict[int, int] = {}
    for _ in range(batches):
        producer_id = rng.randrange(4)
        if producer_id in open_at and rng.random() < 0.3:
            commit = rng.random() < 0.5
            marker = end_transaction_marker(
                producer_id=producer_id, producer_epoch=1, commit=commit, coordinator_epoch=0, timestamp_ms=5
            )
            offset = log.append(marker)
            first = open_at.pop(producer_id)
            if not commit:
                log.aborted.append((producer_id, first, offset))
            continue
        transactional = rng.random() < 0.7
        made = some_records(rng, rng.choice([1, 2, most_records]))
        batch = build_batch(
            made,
            producer_id=producer_id if transactional else -1,
            producer_epoch=1 if transactional else -1,
            base_sequence=sequences.get(producer_id, 0x7FFFFFFF) if transactional else -1,
            transactional=transactional,
            compression=rng.choice([0, 0, 1, 2, 3, 4]),
            timestamp_type=rng.choice(list(TimestampType)),
        )
        if transactional:
            sequences[producer_id] = (sequences.get(producer_id, 0x7FFFFFFF) + len(made)) & 0x7FFFFFFF
        if rng.random() < 0.2:
            kept = [record for record in records_of(batch) if rng.random() < 0.5]
            batch = refill_batch(read_header(batch), kept)
        offset = log.append(batch)
        if transactional:
            open_at.setdefault(producer_id, offset)
    for producer_id, first in open_at.items():
        marker = end_transaction_marker(
            producer_id=producer_id, producer_epoch=1, commit=False, coordinator_epoch=0, timestamp_ms=5
        )
        log.aborted.append((producer_id, first, log.append(marker)))
    return log


def reader(log: Log, begin: int, end: int, settings: Any = COMMITTED, schema: Any = SCHEMA) -> RangeReader:
    return RangeReader(OffsetRange("t", 7, begin, end), settings, schema)


def rows(of: RangeReader, log: Log) -> list[dict[str, Any]]:
    """What one fetch of the whole log gives."""
    of._position = of.piece.begin
    fetched = PartitionData(
        partition_index=7,
        high_watermark=log.end,
        last_stable_offset=log.end,
        aborted_transactions=log.list_for(of.piece.begin),
        records=memoryview(log.data),
    )
    found = [row for batch in of._batches(fetched) for row in batch.to_pylist()]
    assert of.counts.total() == of.piece.size, of.counts
    assert of._position == of.piece.end
    return found


def plain_rows(log: Log, visible: Iterable[int] | None, begin: int, end: int) -> list[dict[str, Any]]:
    """The same, record by record."""
    shown = None if visible is None else set(visible)
    found = []
    for at, header in headers_in(log.data):
        for record in [] if header.is_control else records_of(log.data, at):
            if begin <= record.offset < end and (shown is None or record.offset in shown):
                found.append(plain_row(record, header))
    return found


def plain_row(record: Record, header: Any) -> dict[str, Any]:
    with_id = header.producer_id >= 0
    sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 7,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": int(header.log_append_time),
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        "producerId": header.producer_id if with_id else None,
        "producerEpoch": header.producer_epoch if with_id else None,
        "sequence": sequence if header.base_sequence >= 0 else None,
        "transactional": header.is_transactional,
        "keyBytes": record.key,
        "valueBytes": record.value,
    }


def with_numbers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Timestamps as milliseconds again."""
    return [row | {"timestamp": round(row["timestamp"].timestamp() * 1000)} for row in found]


@pytest.mark.parametrize("seed", range(30))
def test_committed_records_of_random_logs_are_those_of_the_oracle(seed: int) -> None:
    """I30 from the reader's side: any range of any log, all codecs, compacted batches, transactions within each other;
    and what is not shown is counted exactly by kind.
    """
    rng = random.Random(seed)
    log = random_log(rng, rng.choice([5, 40]))
    begin, end = sorted(rng.randrange(log.end + 1) for _ in range(2)) if seed % 3 else (0, log.end)
    seen, _position = committed_records([bytes(log.data)], log.list_for(begin), begin)
    of = reader(log, begin, end)
    found = with_numbers(rows(of, log)) if begin < end else []
    expected = plain_rows(log, [one.offset for one in seen], begin, end)
    assert found == expected
    if begin < end:
        everything = plain_rows(log, None, begin, end)
        markers = sum(header.is_control and begin <= header.base_offset < end for _at, header in headers_in(log.data))
        assert of.counts.records == len(expected)
        assert of.counts.aborted == len(everything) - len(expected)
        assert of.counts.control == markers


@pytest.mark.parametrize("seed", range(5))
def test_uncommitted_reading_shows_every_record(seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng, 20)
    assert with_numbers(rows(reader(log, 0, log.end, UNCOMMITTED), log)) == plain_rows(log, None, 0, log.end)


def test_records_of_one_size_and_their_exceptions_are_walked_alike() -> None:
    """Runs that end where a varint grows, where one record differs, at the batch's end."""
    for odd in (0, 1, 23, 24, 25, 8191, 8192, 9000, 9999):
        made = [NewRecord(b"x" * (100 if number != odd else 101), None, number) for number in range(10_000)]
        log = Log()
        log.append(build_batch(made))
        assert with_numbers(rows(reader(log, 0, log.end), log)) == plain_rows(log, None, 0, log.end)


def test_only_the_columns_asked_for_are_made() -> None:
    log = random_log(random.Random(1), 10)
    few = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    found = rows(reader(log, 0, log.end, UNCOMMITTED, few), log)
    assert found == [{"offset": row["offset"], "value": row["value"]} for row in plain_rows(log, None, 0, log.end)]


def test_timestamps_are_filtered_by_batch_and_by_record() -> None:
    log = Log()
    for start in range(0, 100, 10):
        log.append(build_batch([NewRecord(b"v", None, 1000 + start + step) for step in range(10)]))
    of = reader(log, 0, 100)
    of.pushed = filters.Pushed(times_ms=filters.Span(1035, 1061))
    assert [row["offset"] for row in rows(of, log)] == list(range(35, 62))
    assert (of.counts.records, of.counts.filtered) == (27, 73)


@pytest.mark.parametrize("seed", range(200))
def test_damaged_records_are_an_error_and_nothing_else(seed: int) -> None:
    """Every byte behind the header may be wrong: either the reader says so, or it reads what records_of reads."""
    rng = random.Random(seed)
    batch = bytearray(build_batch(some_records(rng, 30)))
    for _ in range(rng.choice([1, 1, 3])):
        batch[rng.randrange(61, len(batch))] = rng.randrange(256)
    log = Log()
    log.append(bytes(batch))
    settings = replace(UNCOMMITTED, check_crcs=False)
    names = ("offset", "key", "value", "headers")
    of = reader(log, 0, log.end, settings, pa.schema([(name, TYPES[name]) for name in names]))
    try:
        found = rows(of, log)
    except CannotRead:
        return
    assert found == [{name: row[name] for name in names} for row in plain_rows(log, None, 0, log.end)]


def test_a_wrong_checksum_is_reported() -> None:
    batch = bytearray(build_batch([NewRecord(b"value")]))
    batch[-3] ^= 1
    log = Log()
    log.append(bytes(batch))
    with pytest.raises(CannotRead, match="checksum"):
        rows(reader(log, 0, 1), log)


def test_varints_without_an_end_are_refused() -> None:
    import numpy as np

    data = np.full(20, 0xFF, dtype=np.uint8)
    with pytest.raises(CorruptRecords):
        varints.unsigned_varints(data, np.array([0]), varints.INT)


def test_chunks_are_cut_by_count_and_codec() -> None:
    log = Log()
    for codec in (0, 0, 0, 4, 4, 0):
        log.append(build_batch([NewRecord(b"v")] * 10, compression=codec))
    found = records.chunks(
        memoryview(log.data), list(headers_in(log.data)), most_records=20, most_bytes=1 << 20, check=True
    )
    assert [[header.base_offset for header in chunk.headers] for chunk in found] == [[0, 10], [20], [30, 40], [50]]
