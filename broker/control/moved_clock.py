"""A clock that a test moves forward: timeouts, sessions, retention and expiry come when the test wants them.

Everything that reads the time moves together: the wall clock that records and coordinators carry, the clock that waits
are measured with, and the event loop's own, by which its timers ring. uvloop's cannot be moved, so such a broker runs
on asyncio's own loop.
"""

import asyncio

from broker.process.environment import MonotonicMs, RealEnvironment, WallMs
from storage.files import Files

FURTHEST_MS = 1000 * 365 * 86_400_000
"""A thousand years: with them timestamps still are what records and log lines can carry."""


class MovedClock:
    """How far the time of this process is ahead."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def advance(self, milliseconds: int) -> None:
        """Called on the loop. Raises `ValueError` for a step back, which no clock of a test needs, and for what is no
        time that a record could have."""
        if type(milliseconds) is not int:
            raise ValueError(f"{milliseconds!r} is no whole number of milliseconds")
        if milliseconds < 0:
            raise ValueError("the clock does not go back")
        if self.ahead_ms + milliseconds > FURTHEST_MS:
            raise ValueError("the clock goes a thousand years ahead at most")
        self.ahead_ms += milliseconds


class MovedLoop(asyncio.SelectorEventLoop):
    """A loop whose timers ring by a moved clock."""

    def __init__(self, clock: MovedClock) -> None:
        self._clock = clock
        super().__init__()

    def time(self) -> float:
        return super().time() + self._clock.ahead_ms / 1000


class MovedEnvironment(RealEnvironment):
    """The real world, at another time."""

    def __init__(self, files: Files | None, clock: MovedClock) -> None:
        super().__init__(files)
        self._clock = clock

    def wall_ms(self) -> WallMs:
        return WallMs(super().wall_ms() + self._clock.ahead_ms)

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(super().monotonic_ms() + self._clock.ahead_ms)
