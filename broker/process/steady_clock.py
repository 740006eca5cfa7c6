"""The time that coordinators go by, and their alarms.

It is the wall clock, but when that is set back it goes on from where it was. A machine has one clock, for what
its records say and for what is due in a moment: a marker to be written once more, a session that ends, a rebalance.
None of these may wait for as long as the clock was set back. (Kafka keeps timers of groups and retries on a clock of
their own, which is never set.) What it is ahead is made up for as soon as the clock is set forward again; a restart
begins with the wall clock as it is.

When the wall clock is set forward it goes along, so that new timestamps can be distinguished from those written
before a restart; but it calls `on_leap`, so that sessions and waits of clients last as long as promised.
"""

import asyncio
from collections.abc import Callable

from broker.process.environment import Environment
from coordinator.ports import Cancel

LONGEST_TIMER_MS = 60_000
"""A timer looks at the clock again at least this often, for the clock may be set forward."""
STEP_MS = 1_000
"""What is less than this, and than a hundredth of the time between two looks, is drift, and taken as it comes."""


class SteadyClock:
    """See the head of this file."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._wall_ms: int = environment.wall_ms()
        self._monotonic_ms: int = environment.monotonic_ms()
        self._ahead_ms = 0
        self.on_leap: Callable[[int], None] | None = None
        """Called with the milliseconds this clock went ahead of time, before it returns a later time."""

    def now_ms(self) -> int:
        wall_ms, monotonic_ms = self._environment.wall_ms(), self._environment.monotonic_ms()
        passed_ms = monotonic_ms - self._monotonic_ms
        jumped_ms = wall_ms - self._wall_ms - passed_ms
        self._wall_ms, self._monotonic_ms = wall_ms, monotonic_ms
        if abs(jumped_ms) > max(STEP_MS, passed_ms // 100):
            leapt_ms = jumped_ms - self._ahead_ms
            self._ahead_ms = max(0, -leapt_ms)
            if leapt_ms > 0 and self.on_leap is not None:
                self.on_leap(leapt_ms)
        return wall_ms + self._ahead_ms


class LoopTimer:
    """Alarms on the event loop, by such a clock. An alarm never comes early."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock

    def at(self, wall_ms: int, callback: Callable[[], None]) -> Cancel:
        return _LoopAlarm(self._clock, wall_ms, callback)


class _LoopAlarm:
    def __init__(self, clock: SteadyClock, wall_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._wall_ms = wall_ms
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle = self._schedule()

    def _schedule(self) -> asyncio.TimerHandle:
        delay_ms = min(max(0, self._wall_ms - self._clock.now_ms()), LONGEST_TIMER_MS)
        return self._loop.call_later(delay_ms / 1000, self._ring)

    def _ring(self) -> None:
        if self._clock.now_ms() >= self._wall_ms:
            self._callback()
        else:
            self._handle = self._schedule()

    def cancel(self) -> None:
        self._handle.cancel()
