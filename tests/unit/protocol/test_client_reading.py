"""What a reader makes of fetched bytes, by isolation level."""

import pytest

from protocol.messages.fetch import AbortedTransaction
from protocol.records.control import end_transaction_marker
from protocol.records.record import NewRecord, build_batch
from tallystick.client.reading import visible_records


def data(offset: int, values: bytes, producer_id: int = -1) -> bytes:
    records = [NewRecord(values[i : i + 1]) for i in range(len(values))]
    return build_batch(
        records, base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=producer_id >= 0
    )


def marker(offset: int, producer_id: int, commit: bool) -> bytes:
    return end_transaction_marker(
        producer_id=producer_id,
        producer_epoch=0,
        commit=commit,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


# Producer 1 aborts 0-1 and 5, commits 7; producer 2 commits 2 within the first; 4 belongs to nobody.
LOG = [
    data(0, b"ab", 1),
    data(2, b"c", 2),
    marker(3, 1, commit=False),
    data(4, b"d"),
    data(5, b"e", 1),
    marker(6, 1, commit=False),
    data(7, b"f", 1),
    marker(8, 1, commit=True),
    marker(9, 2, commit=True),
]
ABORTED = [AbortedTransaction(producer_id=1, first_offset=5), AbortedTransaction(producer_id=1, first_offset=0)]


@pytest.mark.parametrize(("start", "seen"), [(0, b"cdf"), (1, b"cdf"), (3, b"df"), (5, b"f"), (8, b"")])
def test_a_committed_reader_sees_the_same_from_every_start(start: int, seen: bytes) -> None:
    """The broker sends whole batches from the one that holds the start, and lists the transactions aborted there."""
    first = max(i for i, begin in enumerate((0, 2, 3, 4, 5, 6, 7, 8, 9)) if begin <= start)
    ended = {0: 3, 5: 6}
    aborted = [transaction for transaction in ABORTED if ended[transaction.first_offset] >= start]
    assert b"".join(r.value or b"" for r in visible_records(b"".join(LOG[first:]), aborted, start)) == seen


def test_an_uncommitted_reader_sees_all_but_markers() -> None:
    assert b"".join(r.value or b"" for r in visible_records(b"".join(LOG), None, 0)) == b"abcdef"
