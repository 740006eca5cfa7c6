"""Work in slices: how long somebody has had the loop, and a turn for the others.

Rule. No turn of the loop is longer than 20 ms, whatever arrives. Work whose size a client or a log chooses asks between
two of its steps whether its slice is `spent`, and if so waits for its next turn. Slices are of time and never of bytes
or counts, which say little about time. What was read of shared state before the wait is asked again after it.
"""

import asyncio
from collections.abc import Callable

SLICE_S = 0.005


class TimeSlice:
    """A stretch of time on the loop, begun now; `clock` gives seconds and never goes back."""

    __slots__ = ("_end", "clock")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._end = clock() + SLICE_S

    def spent(self) -> bool:
        """Whether the others are to have a turn."""
        return self.clock() >= self._end

    async def wait_for_turn(self) -> None:
        """Let everybody else have a turn, then begin a new slice."""
        await asyncio.sleep(0)
        self._end = self.clock() + SLICE_S
