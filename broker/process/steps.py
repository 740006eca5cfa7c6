"""Runs the steps of `storage.steps` on the loop: a turn for the others where one says so, a thread for what blocks."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.process.environment import Environment
from storage.steps import Spent, Steps

T = TypeVar("T")


async def run_steps(
    environment: Environment,
    work: Callable[[Spent], Steps[T]],
    *,
    wait_until_next: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """What `work` returns. It is given a look at the clock. `wait_until_next` slows it down, between two steps.

    An error of blocking work is raised inside, where it was asked for. Who gives up waiting ends the work.
    """
    slice_ = environment.time_slice()
    steps = work(slice_.spent)
    error: OSError | None = None
    try:
        while True:
            try:
                step = next(steps) if error is None else steps.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            error = None
            if step is not None:
                try:
                    await environment.run_blocking(step)
                except OSError as failed:
                    error = failed
            if wait_until_next is not None:
                await wait_until_next()
            await slice_.wait_for_turn()
    finally:
        steps.close()
