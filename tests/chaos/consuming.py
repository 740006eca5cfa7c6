"""What a worker consumes within its transactions: polled once in each, committed with it, or polled again.

A poll is the only moment at which a rebalance may take place, and there is one in a transaction: so nothing that was
polled is neither committed nor given up when partitions change hands.
"""

import time
from collections.abc import Callable
from typing import Any

from tests.chaos.drivers.driver import Member, Place

POLL_S = 0.2


class Consuming:
    """The consumer of one incarnation of a worker. `note` writes an event down."""

    def __init__(self, member: Member, process: str, note: Callable[..., None]) -> None:
        self.member = member
        self._process = process
        self._note = note
        self._readings = 0
        """One begins wherever positions are set."""
        self._polled: dict[Place, tuple[int, int]] = {}
        """In this transaction: the first offset, and the one behind the last."""

    def poll(self, **named: Any) -> None:
        """`named` says in which transaction."""
        invoked = time.monotonic_ns()
        found = self.member.poll(POLL_S)
        if (assigned := self.member.assigned()) is not None:
            self._set(assigned)
        for place, offset, _ in found:
            first, _ = self._polled.get(place, (offset, 0))
            self._polled[place] = (first, offset + 1)
        if found:
            records = [(*place, offset, int(value)) for place, offset, value in found]
            reader = f"{self._process}#{self._readings}"
            self._note("read", reader=reader, invoked=invoked, records=records, **named)

    def positions(self) -> dict[Place, int]:
        """To be sent with the transaction."""
        return {place: behind for place, (_, behind) in self._polled.items()}

    def committed(self) -> None:
        self._polled.clear()

    def aborted(self) -> None:
        """What was polled is to be polled again."""
        if self._polled:
            positions = {place: first for place, (first, _) in self._polled.items()}
            self.member.rewind(positions)
            self._set(positions)
            self._polled.clear()

    def _set(self, positions: "dict[Place, int | None] | dict[Place, int]") -> None:
        self._readings += 1
        self._note("assigned", process=self._process, positions=[(*one, offset) for one, offset in positions.items()])
