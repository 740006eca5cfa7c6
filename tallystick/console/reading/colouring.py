"""Records of a partition, each with what became of its transaction. No I/O.

A broker tells of aborted transactions as far as readers of committed records may read (KIP-98). Behind that, how they
ended follows from their markers, as far as these were read, and which are open from the broker's producers (KIP-664).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from protocol.messages.fetch import AbortedTransaction
from protocol.records.aborting import Aborting
from protocol.records.batch import BatchHeader, CorruptRecords, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import Headers, Record, records_of
from protocol.schema import Buffer
from tallystick.records.fates import Fate, Markers

LARGEST_BATCH_BYTES = 16 << 20
"""A batch that is larger when it is uncompressed is not opened for a page."""
KEPT_BYTES = 16 << 20
"""A page ends where its records come to more: a few kilobytes of zstd can stand for gigabytes."""
_ROW_BYTES, _HEADER_BYTES = 300, 150
"""What is kept of a row and of a header beside its bytes."""


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
    """Of a control record: what it says."""
    problem: str = ""
    """Why the rest of its batch cannot be read."""

    @property
    def kind(self) -> str:
        """What a page calls it."""
        return "unreadable" if self.problem else "plain" if self.fate is Fate.NONE else self.fate.value


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
    markers, aborting = Markers(with_unreadable=True), Aborting(known.aborted)
    markers.see(records)
    rows: list[Shown] = []
    kept_bytes = 0
    for position, header in headers_in(records):
        if len(rows) >= most or kept_bytes > KEPT_BYTES:
            break
        note = _note(records, position) if header.is_control else ""
        is_aborted = aborting.take(header, ends=note == "abort")
        fate = _fate(header, known, markers, is_aborted=is_aborted)
        for row in islice(_rows(records, position, header, fate, from_offset, note), most - len(rows)):
            rows.append(row)
            kept_bytes += _kept_bytes(row)
    return rows


def _kept_bytes(row: Shown) -> int:
    headers = sum(len(name) + len(value or b"") + _HEADER_BYTES for name, value in row.headers)
    return _ROW_BYTES + len(row.key or b"") + len(row.value or b"") + headers


def _fate(header: BatchHeader, known: Knowledge, markers: Markers, *, is_aborted: bool) -> Fate:
    found = markers.fate(header)
    if found in (Fate.CONTROL, Fate.NONE):
        return found
    if header.next_offset <= known.settled_below:  # a page may begin within a batch
        return Fate.ABORTED if is_aborted else Fate.COMMITTED
    if found is not None:
        return found
    if known.open_from is None:
        return Fate.OPEN
    start = known.open_from.get(header.producer_id)
    return Fate.OPEN if start is not None and start <= header.last_offset else Fate.ENDED


def _note(records: Buffer, position: int) -> str:
    """What a control record says."""
    try:
        marker = read_end_transaction(records, position)
    except CorruptRecords:
        marker = None
    return "control record" if marker is None else "commit" if marker.commit else "abort"


def _rows(
    records: Buffer, position: int, header: BatchHeader, fate: Fate, from_offset: int, note: str
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
        yield _row(missing, header, fate, note, str(problem) or "unreadable")


def _row(one: Record, header: BatchHeader, fate: Fate, note: str, problem: str = "") -> Shown:
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
        problem,
    )
