"""Runs the steps of `storage.steps` on the loop: a turn for the others where one says so, a thread for what blocks,
a wait for what another machine is asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.process.environment import Environment
from broker.process.time_slice import TimeSlice
from storage.steps import Spent, Steps

T = TypeVar("T")


async def run_steps(
    environment: Environment,
    work: Callable[[Spent], Steps[T]],
    *,
    wait_until_next: Callable[[], Awaitable[None]] | None = None,
    blocking: asyncio.Semaphore | None = None,
    slice_: TimeSlice | None = None,
) -> T:
    """What `work` returns. It is given a look at the clock. `wait_until_next` slows it down, between two steps.
    `blocking` bounds how many pieces of work go on at a time that have begun to block. `slice_` is the slice of the
    whole, where this is a part.

    An error of blocking work is raised inside, where it was begun. Cancelling the wait ends the work.
    """
    slice_ = slice_ or environment.time_slice()
    steps = work(slice_.spent)
    error: OSError | None = None
    entered = False
    try:
        while True:
            try:
                step = next(steps) if error is None else steps.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            error = None
            if step is not None:
                if blocking is not None and not entered:
                    await blocking.acquire()
                    entered = True
                try:
                    await (environment.run_blocking(step) if callable(step) else step)
                except OSError as failed:
                    error = failed
            if wait_until_next is not None:
                await wait_until_next()
            await slice_.wait_for_turn()
    finally:
        error = None  # It knows this frame.
        steps.close()
        if entered and blocking is not None:
            blocking.release()
