"""What is done in a turn of a simulated loop: counted, bounded, and named."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator.cluster.topics import never_spent
from tests.harness.loop import ProcessLoop, new_process, run_on
from tests.harness.turn_work import BUDGET_STEPS, CountingScheduler

CALLS = BUDGET_STEPS * 3 // 4
"""Each of them a call and a return."""


def failures(work: Callable[[], Awaitable[None]], process: str = "broker-1") -> list[str]:
    scheduler = CountingScheduler()
    run_on(new_process(scheduler, process), work())
    return scheduler.failures


def ask(count: int) -> None:
    for _ in range(count):
        never_spent()


async def in_one_turn() -> None:
    ask(CALLS)


async def in_two_turns() -> None:
    for _ in range(2):
        ask(CALLS // 2)
        await asyncio.sleep(0)


async def in_two_callbacks_of_a_turn() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(2):
        loop.call_soon(ask, CALLS // 2)
    await asyncio.sleep(0)


async def on_a_thread() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    loop.scheduler.off_the_loop(lambda: ask(CALLS))


@pytest.mark.parametrize("work", [in_one_turn, in_two_callbacks_of_a_turn])
def test_a_turn_that_does_too_much_is_named(work: Callable[[], Awaitable[None]]) -> None:
    (failure,) = failures(work)
    assert failure.startswith("a turn of 300000 steps, most of them in topics.never_spent:")


def test_what_is_done_in_turns_on_a_thread_or_by_clients_is_none_of_it() -> None:
    assert failures(in_two_turns) == failures(on_a_thread) == failures(in_one_turn, "clients") == []
