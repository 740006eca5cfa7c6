"""Records of a partition, each with what became of its transaction. No I/O.

A broker tells of aborted transactions as far as readers of committed records may read (KIP-98); behind that, which
transactions are open follows from its producers (KIP-664), and how others ended from their markers.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from protocol.messages.fetch import AbortedTransaction
from protocol.records.batch import BatchHeader, CorruptRecords, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import Headers, Record, records_of
from protocol.schema import Buffer

LARGEST_BATCH_BYTES = 16 << 20
"""A batch that is larger when it is uncompressed is not opened for a page."""
KEPT_BYTES = 16 << 20
"""A page ends where its records come to more: a few kilobytes of zstd can stand for gigabytes."""
_ROW_BYTES, _HEADER_BYTES = 300, 150
"""What is kept of a row and of a header beside its bytes."""


class Fate(Enum):
    """What became of a record."""

    PLAIN = "plain"
    """It belongs to no transaction."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    ENDED = "ended"
    """Its transaction has ended, and its marker lies beyond what was read."""
    CONTROL = "control"
    """Written by the broker; consumers are not shown it."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Shown:
    """One row."""

    offset: int
    timestamp_ms: int
    fate: Fate
    producer_id: int
    producer_epoch: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    note: str = ""
    """Of a control record: what it says. Of an unreadable batch: why."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of the transactions in some bytes."""

    settled_below: int
    """Below this offset `aborted` says everything."""
    aborted: list[AbortedTransaction]
    open_from: Mapping[int, int] | None
    """Producer id -> first offset of its open transaction; None where the broker does not tell."""


def coloured(records: Buffer, known: Knowledge, from_offset: int, most: int) -> list[Shown]:
    """The first `most` records from `from_offset` on."""
    markers = _markers(records)
    pending = [(one.first_offset, one.producer_id) for one in known.aborted]
    heapq.heapify(pending)
    aborting: set[int] = set()
    rows: list[Shown] = []
    kept_bytes = 0
    for position, header in headers_in(records):
        if len(rows) >= most or kept_bytes > KEPT_BYTES:
            break
        while pending and pending[0][0] <= header.last_offset:
            aborting.add(heapq.heappop(pending)[1])
        if header.is_control:
            marker = _marker(records, position)
            if marker is False:
                aborting.discard(header.producer_id)
            note = {True: "commit", False: "abort", None: "control record"}[marker]
            found = _rows(records, position, header, Fate.CONTROL, from_offset, note)
        else:
            fate = _fate(header, known, aborting, markers)
            found = _rows(records, position, header, fate, from_offset)
        for row in islice(found, most - len(rows)):
            rows.append(row)
            kept_bytes += _kept_bytes(row)
    return rows


def _kept_bytes(row: Shown) -> int:
    headers = sum(len(name) + len(value or b"") + _HEADER_BYTES for name, value in row.headers)
    return _ROW_BYTES + len(row.key or b"") + len(row.value or b"") + headers


def _fate(
    header: BatchHeader, known: Knowledge, aborting: set[int], markers: dict[int, list[tuple[int, bool]]]
) -> Fate:
    if not header.is_transactional:
        return Fate.PLAIN
    if header.next_offset <= known.settled_below:  # a page may begin within a batch
        return Fate.ABORTED if header.producer_id in aborting else Fate.COMMITTED
    behind = (commit for offset, commit in markers.get(header.producer_id, ()) if offset > header.last_offset)
    ended = next(behind, None)
    if ended is not None:
        return Fate.COMMITTED if ended else Fate.ABORTED
    if known.open_from is None:
        return Fate.OPEN
    start = known.open_from.get(header.producer_id)
    return Fate.OPEN if start is not None and start <= header.last_offset else Fate.ENDED


def _markers(records: Buffer) -> dict[int, list[tuple[int, bool]]]:
    """Producer id -> (offset, whether it commits), in order."""
    found: dict[int, list[tuple[int, bool]]] = {}
    for position, header in headers_in(records):
        if header.is_control:
            marker = _marker(records, position)
            if marker is not None:
                found.setdefault(header.producer_id, []).append((header.base_offset, marker))
    return found


def _marker(records: Buffer, position: int) -> bool | None:
    try:
        marker = read_end_transaction(records, position)
    except CorruptRecords:
        return None
    return None if marker is None else marker.commit


def _rows(
    records: Buffer, position: int, header: BatchHeader, fate: Fate, from_offset: int, note: str = ""
) -> Iterator[Shown]:
    """One after the other: of a batch of millions those are made that are shown. What follows what cannot be read is
    one row."""
    if header.last_offset < from_offset:
        return
    behind = max(header.base_offset, from_offset)
    try:
        for one in records_of(records, position, limit=LARGEST_BATCH_BYTES):
            if one.offset >= from_offset:
                yield _row(one, header, fate, note)
                behind = one.offset + 1
    except CorruptRecords as problem:
        missing = Record(behind, header.max_timestamp, None, None, ())
        yield _row(missing, header, Fate.UNREADABLE, str(problem))


def _row(one: Record, header: BatchHeader, fate: Fate, note: str) -> Shown:
    return Shown(
        one.offset,
        one.timestamp_ms,
        fate,
        header.producer_id,
        header.producer_epoch,
        one.key,
        one.value,
        one.headers,
        note,
    )
