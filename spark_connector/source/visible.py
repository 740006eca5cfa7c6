"""Which batches of a fetch a reader is shown, and what the offsets that it is not shown were.

The algorithm of Kafka's consumers: a transaction of the aborted list begins at its first offset and ends at its
producer's abort marker; batches of a producer in between are left out. Control batches are never shown.
"""

import heapq
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from protocol.records.batch import BatchHeader, CorruptRecords, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import records_of
from protocol.schema import Buffer


class Aborted(Protocol):
    """One entry of the aborted list."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


@dataclass(slots=True)
class Counts:
    """What became of a range of offsets, exactly: the counts of a finished range add up to its length."""

    records: int = 0
    filtered: int = 0
    """Records that a pushed filter has left out."""
    aborted: int = 0
    control: int = 0
    compacted: int = 0
    """Offsets that lie in the log, but whose records are gone."""
    lost: int = 0
    """Offsets below the log's start, or behind its end."""

    def total(self) -> int:
        return sum(asdict(self).values())


@dataclass(slots=True)
class Shown:
    """A fetch, judged. `position` is where the next one begins."""

    batches: list[tuple[int, BatchHeader]]
    position: int


def shown(data: Buffer, aborted: Sequence[Aborted] | None, position: int, until: int, counts: Counts) -> Shown:
    """The batches with records for [position, until). Counts markers and aborted records, and what is missing
    between and behind them; records of the batches shown are the caller's to count, with `missing_within`.
    """
    to_come = [(entry.first_offset, entry.producer_id) for entry in aborted or ()]
    heapq.heapify(to_come)
    ignored: set[int] = set()
    batches: list[tuple[int, BatchHeader]] = []
    for at, header in headers_in(data):
        while to_come and to_come[0][0] <= header.last_offset:
            ignored.add(heapq.heappop(to_come)[1])
        if header.is_control and header.producer_id in ignored and _aborts(data, at):
            ignored.discard(header.producer_id)
        if header.next_offset <= position:
            continue
        if header.base_offset >= until:
            counts.compacted += until - position
            return Shown(batches, until)
        counts.compacted += max(0, header.base_offset - position)
        begin, end = max(position, header.base_offset), min(until, header.next_offset)
        if header.is_control or (header.is_transactional and header.producer_id in ignored):
            there = records_between(data, at, header, begin, end)
            counts.compacted += end - begin - there
            if header.is_control:
                counts.control += there
            else:
                counts.aborted += there
        elif header.records_count:
            batches.append((at, header))
        else:
            counts.compacted += end - begin
        position = end
        if position == until:
            break
    return Shown(batches, position)


def _aborts(data: Buffer, at: int) -> bool:
    end = read_end_transaction(data, at)
    return end is not None and not end.commit


def records_between(data: Buffer, at: int, header: BatchHeader, begin: int, end: int) -> int:
    """How many records of a batch have offsets in [begin, end). Looks inside only where the header cannot tell."""
    if header.records_count == header.last_offset_delta + 1:
        return end - begin
    if begin == header.base_offset and end == header.next_offset:
        return header.records_count
    if header.records_count < 0:
        raise CorruptRecords(f"{header.records_count} records")
    return sum(begin <= record.offset < end for record in records_of(data, at)) if header.records_count else 0
