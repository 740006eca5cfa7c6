"""What became of records, by the bytes and by what a broker tells beside them."""

import pytest

from protocol.messages.fetch import AbortedTransaction
from protocol.records.compression import GZIP
from protocol.records.control import end_transaction_marker
from protocol.records.record import NewRecord, build_batch
from tallystick.console.reading.colouring import KEPT_BYTES, Knowledge, coloured


def batch(offset: int, count: int = 1, *, producer: int = -1, compression: int = 0) -> bytes:
    records = [NewRecord(value=b"v" * 40, timestamp_ms=1) for _ in range(count)]
    return build_batch(
        records,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        transactional=producer >= 0,
        compression=compression,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return end_transaction_marker(
        producer_id=producer,
        producer_epoch=0,
        commit=commit,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=offset,
    )


def aborted(producer: int, first_offset: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id=producer, first_offset=first_offset)


def fates(data: bytes, known: Knowledge, start: int = 0, most: int = 100) -> list[tuple[int, str]]:
    return [(row.offset, row.note or row.kind) for row in coloured(data, known, start, most)]


LOG = (
    batch(0)
    + batch(1, 2, producer=1)
    + batch(3, producer=2)
    + marker(4, 1, commit=False)
    + batch(5, producer=1)
    + marker(6, 2, commit=True)
    + marker(7, 1, commit=True)
    + batch(8, producer=3)
    + batch(9, producer=1)
    + marker(10, 1, commit=False)
    + batch(11, producer=2)
)


def test_below_the_last_stable_offset_the_aborted_ones_are_listed() -> None:
    known = Knowledge(8, [aborted(1, 1)], {3: 8})
    assert fates(LOG, known) == [
        (0, "plain"),
        (1, "aborted"),
        (2, "aborted"),
        (3, "committed"),
        (4, "abort"),
        (5, "committed"),
        (6, "commit"),
        (7, "commit"),
        (8, "open"),
        (9, "aborted"),  # by its marker: it lies behind the open one
        (10, "abort"),
        (11, "ended"),  # not open, says the leader; its marker was not read
    ]


def test_without_word_of_producers_what_has_no_marker_counts_as_open() -> None:
    assert fates(LOG, Knowledge(8, [aborted(1, 1)], None))[-1] == (11, "open")


def test_a_page_begins_inside_a_batch_and_ends_there() -> None:
    assert fates(LOG, Knowledge(8, [aborted(1, 1)], {}), start=2, most=2) == [(2, "aborted"), (3, "committed")]


def test_a_batch_that_cannot_be_opened_is_one_row_that_says_so() -> None:
    bad = bytearray(batch(1, 3, compression=GZIP))
    bad[-8:] = bytes(8)
    rows = coloured(batch(0) + bytes(bad) + batch(4), Knowledge(5, [], {}), 0, 100)
    assert [(row.offset, row.kind) for row in rows] == [(0, "plain"), (1, "unreadable"), (4, "plain")]
    assert rows[1].problem


def test_a_marker_that_cannot_be_read_has_ended_what_lies_before_it_in_a_way_that_nobody_knows() -> None:
    """The next marker of its producer, which commits, is of a later transaction."""
    torn = bytearray(marker(2, 1, commit=False))
    torn[-16:] = bytes(16)
    data = batch(0, producer=2) + batch(1, producer=1) + bytes(torn) + batch(3, producer=1) + marker(4, 1, commit=True)
    assert fates(data, Knowledge(0, [], {2: 0})) == [
        (0, "open"),
        (1, "ended"),
        (2, "control record"),
        (3, "committed"),
        (4, "commit"),
    ]


@pytest.mark.parametrize("cut", [1, 40, 70])
def test_what_is_not_whole_at_the_end_is_left_out(cut: int) -> None:
    assert fates((batch(0) + batch(1))[:-cut], Knowledge(2, [], {})) == [(0, "plain")]


def test_a_page_of_compressed_records_holds_no_more_than_its_bytes() -> None:
    """A few kilobytes can stand for gigabytes: the page ends, and the next goes on where it did."""
    large = [NewRecord(value=bytes(4 << 20), timestamp_ms=1)]
    data = b"".join(build_batch(large, base_offset=offset, compression=GZIP) for offset in range(12))
    assert len(data) < 1 << 20
    rows = coloured(data, Knowledge(12, [], {}), 0, 500)
    assert KEPT_BYTES <= sum(len(row.value or b"") for row in rows) < 2 * KEPT_BYTES
    behind = rows[-1].offset + 1
    assert coloured(data, Knowledge(12, [], {}), behind, 1)[0].offset == behind


def test_headers_fill_a_page_too() -> None:
    headers = tuple((f"h{number}", b"") for number in range(30_000))
    data = b"".join(
        build_batch([NewRecord(b"v", None, 1, headers)], base_offset=at, compression=GZIP) for at in range(6)
    )
    assert 0 < len(coloured(data, Knowledge(6, [], {}), 0, 500)) < 6


def test_a_page_that_begins_within_a_batch_behind_the_last_stable_offset_does_not_call_it_committed() -> None:
    """Readers of committed records were told of nothing from there on; the batch begins before."""
    data = batch(10, 5, producer=1) + batch(15, 3, producer=2) + marker(18, 2, commit=False)
    assert fates(data, Knowledge(12, [], {1: 10}), 12, 2) == [(12, "open"), (13, "open")]
    assert fates(data[data.index(batch(15, 3, producer=2)) :], Knowledge(16, [], {1: 10}), 16, 1) == [(16, "aborted")]
