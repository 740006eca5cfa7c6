"""A clock that a test moves: what is due then is done before anybody hears that it was moved."""

import asyncio
from typing import Any, cast

from broker.control.commands import Controlled, advance
from broker.control.moved_clock import MovedClock, MovedLoop

MINUTE_MS = 60_000


def test_what_is_due_has_its_turn_before_the_answer() -> None:
    """A timer's, and that of a task which slept until then and goes on from there."""
    clock = MovedClock()
    broker = Controlled(faults=cast("Any", None), clock=clock, living=list)
    loop = MovedLoop(clock)
    done: list[str] = []

    async def housekeeping() -> None:
        await asyncio.sleep(MINUTE_MS / 1000)
        done.append("task")
        await asyncio.sleep(0)
        done.append("its next step")

    async def story() -> None:
        task = loop.create_task(housekeeping())
        loop.call_later(MINUTE_MS / 1000, done.append, "timer")
        loop.call_later(2 * MINUTE_MS / 1000, done.append, "later")
        await asyncio.sleep(0)
        assert await advance(broker, milliseconds=MINUTE_MS) == MINUTE_MS
        assert sorted(done) == ["its next step", "task", "timer"]
        await task

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
