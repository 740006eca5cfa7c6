"""Beginning a coroutine at once, and making a task of it only if it has to wait.

Most handlers that may wait do not: what they ask for is there. A task and a turn of the loop for each of them would
cost more than the work. Python 3.12 has eager tasks of its own; before that the first step is made here by hand, in
which `asyncio.current_task()` is not to be asked for.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import Any


def is_coroutine(value: object) -> bool:
    """Whether it is the work of an `async def`: interpreted, or compiled, where each has a class of its own. To ask
    whether it is a `Coroutine` costs ten times that."""
    return type(value) is CoroutineType or hasattr(value, "send")


class Finished:
    """The coroutine ended without waiting."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def begin(
    work: Coroutine[Any, Any, Any], adopt: Callable[["asyncio.Task[Any]"], None]
) -> "Finished | asyncio.Task[Any]":
    """Run `work` until it waits; `adopt` takes the task of one that does. Raises what `work` raises before that."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        task = asyncio.Task(work, loop=loop, eager_start=True)
        if task.done():
            return Finished(task.result())
    else:
        try:
            waiting = work.send(None)
        except StopIteration as finished:
            return Finished(finished.value)
        task = loop.create_task(_rest(work, waiting))
    adopt(task)
    return task


async def _rest(work: Coroutine[Any, Any, Any], waiting: Any) -> Any:
    return await _Resumed(work, waiting)


class _Resumed:
    """What is left of a coroutine that waits for `waiting`."""

    __slots__ = ("_waiting", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], waiting: Any) -> None:
        self._work = work
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, Any]:
        work, waiting = self._work, self._waiting
        step: Callable[[Any], Any]
        while True:
            try:
                sent = yield waiting
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  it is for `work`, a cancellation above all
                step, given = work.throw, error
            else:
                step, given = work.send, sent
            try:
                waiting = step(given)
            except StopIteration as finished:
                return finished.value
