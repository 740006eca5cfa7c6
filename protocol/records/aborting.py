"""Whose transactions are aborted, as batches of one partition pass by: who reads committed records is told of each with
its first offset, and a marker ends it (KIP-98).
"""

import heapq
from collections.abc import Iterable
from typing import Protocol

from protocol.records.batch import BatchHeader


class Aborted(Protocol):
    """A transaction that was aborted."""

    @property
    def first_offset(self) -> int: ...
    @property
    def producer_id(self) -> int: ...


class Aborting:
    """See the head of this file."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._pending = [(transaction.first_offset, transaction.producer_id) for transaction in aborted]
        heapq.heapify(self._pending)
        self._producers: set[int] = set()

    def take(self, header: BatchHeader, *, ends: bool) -> bool:
        """The next batch: whether it is of an aborted transaction. `ends`: it is the marker that aborts one."""
        while self._pending and self._pending[0][0] <= header.last_offset:
            self._producers.add(heapq.heappop(self._pending)[1])
        if ends:
            self._producers.discard(header.producer_id)
        return header.is_transactional and header.producer_id in self._producers
