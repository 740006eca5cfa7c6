"""Answers of a shard on their way to waiting requests, and markers that are durable: some in each turn of the loop.

One operation may answer thousands (a generation of a large group). Each answer wakes a handler, which then writes its
response: together that would be one long turn. So answers beyond the first few go in lots, in the order in which the
shard released them, and each lot is as large as the one before it was quick.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from broker.process.time_slice import SLICE_S, TimeSlice

AT_ONCE: Final = 16
"""Answers that are delivered in one turn."""
LARGEST_LOT = 1024
TURNS_OF_A_LOT = 3
"""Until all that a lot woke is done: the handler, who waits for its result, who writes it."""


class Releases:
    """The answers of one shard, or what waits for markers."""

    def __init__(self, time_slice: TimeSlice) -> None:
        self._slice = time_slice
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._now = 0
        """How many were delivered in this turn."""
        self._lot = AT_ONCE
        self._delivering = False

    def put(self, deliver: Callable[[Any], None], answer: Any) -> None:
        """Call `deliver` with the answer, now or in a later turn."""
        if self._delivering or self._now == AT_ONCE:
            self._waiting.append((deliver, answer))
            if not self._delivering:
                self._delivering = True
                self._slice.call_in_turn(self._deliver_lot)
            return
        if not self._now:
            asyncio.get_running_loop().call_soon(self._turn_over)
        self._now += 1
        deliver(answer)

    def flush(self) -> None:
        """All of them now: the node stops."""
        while self._waiting:
            deliver, answer = self._waiting.popleft()
            deliver(answer)

    def _turn_over(self) -> None:
        self._now = 0

    def _deliver_lot(self) -> None:
        began = self._slice.clock()
        try:
            for _ in range(min(self._lot, len(self._waiting))):
                deliver, answer = self._waiting.popleft()
                deliver(answer)
        finally:  # an answer that cannot be delivered keeps no other from it
            self._look_later(began, TURNS_OF_A_LOT)

    def _look_later(self, began: float, turns: int) -> None:
        look = self._lot_is_done if turns == 1 else self._look_later
        rest = (began,) if turns == 1 else (began, turns - 1)
        asyncio.get_running_loop().call_soon(look, *rest)

    def _lot_is_done(self, began: float) -> None:
        took = self._slice.clock() - began
        if took > SLICE_S:
            self._lot = max(1, self._lot // 2)
        elif took < SLICE_S / 2:
            self._lot = min(2 * self._lot, LARGEST_LOT)
        if self._waiting:
            self._slice.call_in_turn(self._deliver_lot)
        else:
            self._delivering = False
