"""Turns of the loop, counted: what gives way, and how often."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker.process.time_slice import TimeSlice
from tests.harness.work_clock import WorkClock


class Turns:
    """Gives `environment` slices that end after some two dozen looks, and counts the turns that were waited for."""

    def __init__(self, environment: Any) -> None:
        self.waited = 0
        clock = WorkClock()
        turns = self

        class CountedSlice(TimeSlice):
            async def wait_for_turn(self) -> None:
                turns.waited += 1
                await super().wait_for_turn()

        environment.time_slice = lambda: CountedSlice(clock.now)


class CallsPerTurn:
    """How often something is called in one turn of the loop, at most."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.most = self.total = 0
        self._work = work
        self._now = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self._now:
            asyncio.get_running_loop().call_soon(self._turn_over)
        self._now += 1
        self.total += 1
        self.most = max(self.most, self._now)
        return self._work(*arguments, **named)

    def _turn_over(self) -> None:
        self._now = 0
