"""The clock of coordinators: what is due in a moment does not wait for a wall clock that was set back."""

import asyncio

from broker.process.environment import MonotonicMs, RealEnvironment, WallMs
from broker.process.steady_clock import LoopTimer, SteadyClock

HOUR_MS = 3_600_000


class TwoClocks(RealEnvironment):
    """Clocks that the test advances."""

    def __init__(self) -> None:
        super().__init__(None, sync_threads=1)
        self.wall = 1_700_000_000_000
        self.monotonic = 5_000

    def wall_ms(self) -> WallMs:
        return WallMs(self.wall)

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self.monotonic)

    def passes(self, milliseconds: int, *, set_by: int = 0) -> None:
        self.monotonic += milliseconds
        self.wall += milliseconds + set_by


def test_a_clock_set_back_continues_from_its_last_value() -> None:
    environment = TwoClocks()
    clock = SteadyClock(environment)
    began = clock.now_ms()
    environment.passes(100, set_by=-HOUR_MS)
    assert clock.now_ms() == began + 100
    environment.passes(100)
    assert clock.now_ms() == began + 200


def test_set_forward_again_it_is_the_wall_clock() -> None:
    environment = TwoClocks()
    clock = SteadyClock(environment)
    for by in (-HOUR_MS, -HOUR_MS, HOUR_MS, 2 * HOUR_MS):
        environment.passes(10, set_by=by)
        clock.now_ms()
    assert clock.now_ms() == environment.wall


def test_only_what_goes_ahead_of_time_is_a_leap() -> None:
    """Set back by an hour and forward by two, it is one hour ahead of what has passed."""
    environment = TwoClocks()
    clock = SteadyClock(environment)
    leaps: list[int] = []
    clock.on_leap = leaps.append
    for by in (-HOUR_MS, HOUR_MS // 2, HOUR_MS + HOUR_MS // 2, 0):
        environment.passes(10, set_by=by)
        clock.now_ms()
    assert leaps == [HOUR_MS]


def test_drift_is_taken_as_it_comes() -> None:
    """A clock that is slewed for a year must not carry its coordinator away from it."""
    environment = TwoClocks()
    clock = SteadyClock(environment)
    for passed in (1_000, 60_000, HOUR_MS, 24 * HOUR_MS):
        environment.passes(passed, set_by=-passed // 2_000)
        assert clock.now_ms() == environment.wall


def test_an_alarm_is_on_time_when_the_clock_goes_back() -> None:
    """A marker that was refused is written again a moment later, not an hour."""
    environment = TwoClocks()

    async def story() -> None:
        clock = SteadyClock(environment)
        rang = asyncio.Event()
        LoopTimer(clock).at(clock.now_ms() + 20, rang.set)
        environment.passes(20, set_by=-HOUR_MS)
        await asyncio.wait_for(rang.wait(), 10)

    asyncio.run(story())
