"""A few threads for work that may block (syncs), with as little around it as can be.

`concurrent.futures` takes a lock, a condition and two futures for each piece of work; a transaction needs a dozen
syncs, so that counts. Threads are made when there is work and all others are busy; they end with `close`.

Rule. Whatever is given here is done. When the system makes no thread (a limit, no memory), those that there are do it,
later; where there is none, it is done at once, on the loop: everybody waits for that disk then, but nobody for ever.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from broker.process.logging import EventLog

T = TypeVar("T")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]

_log = EventLog("sync_threads")


class SyncThreads:
    """Runs blocking work off the loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._short = False
        """A thread was refused, and that has been logged."""

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """A future of what `work` returns or raises. To be called on the loop's thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._under_way += 1
        if self._under_way > len(self._threads) < self._most:
            self._make_thread()
        if self._threads:
            self._jobs.put((loop, future, work))
        else:
            loop.call_soon(self._settle, future, *_outcome(work))
        return future

    def _make_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"sync-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            if not self._short:
                _log.error("no thread can be made, syncs take longer", threads=len(self._threads), reason=error)
            self._short = True
            return
        self._threads.append(thread)
        self._short = False

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, work = job
            result, error = _outcome(work)
            try:
                loop.call_soon_threadsafe(self._settle, future, result, error)
            except RuntimeError:  # the loop is closed: no caller waits any more
                return
            del job, future, work, result, error

    def _settle(self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
        self._under_way -= 1
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def close(self) -> None:
        """Let what is under way finish, and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


def run_far(work: Callable[[], T]) -> "asyncio.Future[T]":
    """A future of what `work` returns or raises, which waits for another machine: in a thread of its own, that neither
    other work nor the end of the process waits for. Where the system makes no thread, an `OSError`: the loop waits for
    nobody's machine."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def serve() -> None:
        result, error = _outcome(work)
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            loop.call_soon_threadsafe(settle, result, error)

    try:
        threading.Thread(target=serve, name="far", daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        future.set_exception(OSError(f"no thread can be made ({error})"))
    return future


def _outcome(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What `work` returned, and what it raised."""
    try:
        return work(), None
    except BaseException as raised:  # noqa: BLE001  raised where the future is awaited
        return None, raised
