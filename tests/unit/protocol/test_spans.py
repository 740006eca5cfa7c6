"""Spans are the records, by their places."""

import struct
from random import Random

import pytest

from protocol.records.batch import HEADER_SIZE, CorruptRecords, read_header, seal
from protocol.records.compression import ALWAYS_ALLOWED_BYTES, Bounds
from protocol.records.record import NewRecord, assemble, body_of, build_batch, records_in, records_of
from protocol.records.spans import append_at_other_base, spans_in


def a_batch(random: Random) -> bytes:
    records = []
    for _ in range(random.randrange(1, 90)):
        key, value = (random.choice([None, b"", b"key" * random.randrange(40)]) for _ in range(2))
        headers = tuple(
            ("h" * random.randrange(3), random.choice([None, b"x" * 70])) for _ in range(random.randrange(3))
        )
        records.append(NewRecord(value, key, random.randrange(1 << 40), headers))
    return build_batch(records, compression=random.randrange(5))


@pytest.mark.parametrize("seed", range(40))
def test_spans_and_records_say_the_same(seed: int) -> None:
    batch = a_batch(Random(seed))
    header = read_header(batch)
    body = body_of(header, batch)
    spans, records = list(spans_in(header, body)), list(records_of(batch))
    assert [(span[2], span[3], span[4], span[5]) for span in spans] == [
        (record.offset, record.timestamp_ms, record.key, -1 if record.value is None else len(record.value))
        for record in records
    ]
    assert [span[1] for span in spans[:-1]] == [span[0] for span in spans[1:]]


@pytest.mark.parametrize("seed", range(20))
def test_another_base_changes_no_record(seed: int) -> None:
    batch = a_batch(Random(seed))
    header = read_header(batch)
    body, base_ms, moved = body_of(header, batch), (1 << 62) - seed, bytearray()
    for span in spans_in(header, body):
        append_at_other_base(moved, body, span, old_base_ms=header.base_timestamp, base_ms=base_ms)
    again = assemble(header._replace(base_timestamp=base_ms), moved)
    assert list(records_of(again)) == list(records_of(batch))


@pytest.mark.parametrize("seed", range(300))
def test_spans_are_as_strict_as_records(seed: int) -> None:
    """Any changed byte: both read it, or neither does. Only the text of a header's key is not looked at."""
    random = Random(seed)
    batch = bytearray(build_batch([NewRecord(b"value", b"key", n, (("h", b"x"),)) for n in range(3)]))
    batch[random.randrange(HEADER_SIZE, len(batch))] = random.randrange(128)
    seal(batch)
    header = read_header(batch)
    body = body_of(header, batch)
    outcomes = []
    for read in (records_in, spans_in):
        try:
            outcomes.append(len(list(read(header, body))))
        except CorruptRecords:
            outcomes.append(-1)
    assert outcomes[0] == outcomes[1]


def test_times_go_round_as_in_java() -> None:
    batch = bytearray(build_batch([NewRecord(b"a", timestamp_ms=0), NewRecord(b"b", timestamp_ms=5)]))
    struct.pack_into(">q", batch, 27, (1 << 63) - 1)
    seal(batch)
    assert [record.timestamp_ms for record in records_of(batch)] == [(1 << 63) - 1, -(1 << 63) + 4]


def test_bounds_of_decompression() -> None:
    bounds = Bounds(max_bytes=64 << 20, max_ratio=1_000)
    assert bounds.limit_of(100) == ALWAYS_ALLOWED_BYTES
    assert bounds.limit_of(10_000) == 10_000_000
    assert bounds.limit_of(1 << 20) == 64 << 20
    assert Bounds(max_bytes=1_000).limit_of(1) == 1_000
