"""Coroutines that begin at once: the same results, exceptions and cancellations as a task gives."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.process.eager import Finished, begin


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_work_without_waits_runs_at_once_without_a_task() -> None:
    async def story() -> None:
        async def work() -> int:
            return 7

        adopted: list[asyncio.Task[Any]] = []
        done = begin(work(), adopted.append)
        assert isinstance(done, Finished) and done.value == 7 and not adopted

    run(story())


def test_what_fails_before_it_waits_raises_at_once() -> None:
    async def story() -> None:
        async def work() -> int:
            raise LookupError

        with pytest.raises(LookupError):
            begin(work(), lambda task: None)

    run(story())


def test_what_waits_goes_on_as_a_task_through_several_waits() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()

        async def work() -> list[Any]:
            found = [await first]
            await asyncio.sleep(0)
            try:
                await second
            except LookupError as error:
                found.append(type(error))
            return found

        task = begin(work(), lambda task: None)
        assert isinstance(task, asyncio.Task)
        first.set_result(1)
        second.set_exception(LookupError())
        assert await task == [1, LookupError]

    run(story())


def test_a_wait_that_ends_early_is_not_lost() -> None:
    async def story() -> None:
        wait = asyncio.get_running_loop().create_future()

        async def work() -> str:
            return str(await wait)

        task = begin(work(), lambda task: None)
        wait.set_result("early")
        assert isinstance(task, asyncio.Task) and await task == "early"

    run(story())


def test_a_cancellation_reaches_the_coroutine() -> None:
    async def story() -> None:
        seen: list[str] = []

        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                seen.append("cleaned up")

        task = begin(work(), lambda task: None)
        assert isinstance(task, asyncio.Task)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cleaned up"]

    run(story())
