"""Batches as they were read from a log, by their headers alone: where they begin and end, and whose they are."""

from collections.abc import Sequence
from typing import NamedTuple

from protocol.records.batch import BEFORE_LENGTH_COUNTS, CONTROL, HEADER, HEADER_SIZE
from protocol.schema import Buffer
from storage.producers.aborted import AbortedTransaction

AT_ONCE = 2_000
"""Batches of one partition that are looked at in one go; a member fetches the rest next."""


class FetchedBatch(NamedTuple):
    """Offsets `first` to `last` lie in `size` bytes from `at` on in the part `part` of what was read."""

    first: int
    last: int
    part: int
    at: int
    size: int
    producer_id: int
    is_control: bool


def batches_of(parts: Sequence[Buffer]) -> list[FetchedBatch]:
    """The first of them, at most `AT_ONCE`."""
    found: list[FetchedBatch] = []
    for number, part in enumerate(parts):
        at, end = 0, len(part)
        while at + HEADER_SIZE <= end and len(found) < AT_ONCE:
            header = HEADER.unpack_from(part, at)
            base, size, attributes, delta = header[0], header[1] + BEFORE_LENGTH_COUNTS, header[5], header[6]
            found.append(FetchedBatch(base, base + delta, number, at, size, header[9], bool(attributes & CONTROL)))
            at += size
    return found


def part_of(parts: Sequence[Buffer], batches: Sequence[FetchedBatch], first: int, last: int) -> list[Buffer]:
    """The bytes of the batches that have offsets of `first` to `last`; nothing is copied."""
    spans: dict[int, tuple[int, int]] = {}
    for batch in batches:
        if batch.last >= first and batch.first <= last:
            begin, _ = spans.get(batch.part, (batch.at, 0))
            spans[batch.part] = (begin, batch.at + batch.size)
    return [memoryview(parts[number])[begin:end] for number, (begin, end) in spans.items()]


def aborted_among(batches: Sequence[FetchedBatch], aborted: Sequence[AbortedTransaction]) -> list[FetchedBatch]:
    """The batches whose records were written in transactions that were aborted; their markers are none of them."""
    if not aborted:
        return []
    by_producer: dict[int, list[AbortedTransaction]] = {}
    for transaction in aborted:
        by_producer.setdefault(transaction.producer_id, []).append(transaction)
    return [
        batch
        for batch in batches
        if not batch.is_control
        and any(one.first_offset <= batch.first <= one.last_offset for one in by_producer.get(batch.producer_id, ()))
    ]
