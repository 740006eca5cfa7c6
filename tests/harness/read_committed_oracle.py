"""What a read_committed consumer makes of fetched batches: the algorithm of the clients, as an oracle for the broker.

Entries of the aborted list begin at their first offset and end at the producer's abort marker. Batches of a producer
that is in between are left out; control records are never delivered, but move the position.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from protocol.records.batch import headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import records_of
from protocol.schema import Buffer


class Aborted(Protocol):
    """One entry of the aborted list, in storage as on the wire."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class Seen(NamedTuple):
    """A record as an application gets it."""

    offset: int
    key: bytes | None
    value: bytes | None


def committed_records(
    batches: Iterable[Buffer], aborted: Sequence[Aborted], fetch_offset: int
) -> tuple[list[Seen], int]:
    """The records a consumer delivers from one fetch, and its next position."""
    to_come = [(entry.first_offset, entry.producer_id) for entry in aborted]
    heapq.heapify(to_come)
    ignored: set[int] = set()
    seen: list[Seen] = []
    position = fetch_offset
    for data in batches:
        for at, header in headers_in(data):
            while to_come and to_come[0][0] <= header.last_offset:
                ignored.add(heapq.heappop(to_come)[1])
            position = header.next_offset
            if header.is_control:
                end = read_end_transaction(data, at)
                if end is not None and not end.commit:
                    ignored.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in ignored):
                records = (Seen(record.offset, record.key, record.value) for record in records_of(data, at))
                seen += [record for record in records if record.offset >= fetch_offset]
    return seen, position


class Fetched(Protocol):
    """What a read gives back: `broker.partitions.read.FetchedData`, or a Fetch response's partition."""

    @property
    def records(self) -> Iterable[Buffer]: ...

    @property
    def aborted(self) -> Sequence[Aborted] | None: ...


def read_to_the_end(fetch: Callable[[int], Fetched], start_offset: int) -> list[Seen]:
    """Consume from `start_offset` until a fetch moves the position no more."""
    seen: list[Seen] = []
    position = start_offset
    while True:
        data = fetch(position)
        assert data.aborted is not None, "read_committed always gets a list"
        found, next_position = committed_records(data.records, data.aborted, position)
        seen += found
        if next_position == position:
            return seen
        position = next_position
