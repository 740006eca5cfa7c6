"""Threads for blocking work: results, errors, several at once, and an end that waits."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.process.sync_threads import SyncThreads


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_results_and_errors_come_back_to_the_loop() -> None:
    async def story() -> None:
        threads = SyncThreads(2)

        def broken() -> None:
            raise OSError(28, "no space left")

        assert await threads.run(lambda: 7) == 7
        with pytest.raises(OSError, match="no space"):
            await threads.run(broken)
        threads.close()

    run(story())


def test_work_runs_at_once_in_as_many_threads_as_allowed() -> None:
    async def story() -> None:
        threads, meeting = SyncThreads(3), threading.Barrier(3)
        await asyncio.gather(*[threads.run(lambda: meeting.wait(10)) for _ in range(3)])
        names = await asyncio.gather(*[threads.run(lambda: threading.current_thread().name) for _ in range(20)])
        assert len(set(names)) <= 3
        threads.close()

    run(story())


def test_closing_waits_for_what_is_under_way() -> None:
    async def story() -> None:
        threads, go, done = SyncThreads(1), threading.Event(), []

        def work() -> None:
            go.wait(10)
            done.append(True)

        threads.run(work)
        go.set()
        threads.close()
        assert done == [True]

    run(story())


class Scarce:
    """A system that makes so many threads and no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
        self.allowed = allowed
        start = threading.Thread.start

        def scarcely(thread: threading.Thread) -> None:
            if self.allowed <= 0:
                raise RuntimeError("can't start new thread")
            self.allowed -= 1
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", scarcely)


def test_the_threads_there_are_do_the_work_of_those_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Scarce(monkeypatch, 1)

    async def story() -> None:
        threads = SyncThreads(4)
        works = [threads.run(threading.current_thread) for _ in range(6)]
        done = await asyncio.gather(*works)
        assert {thread.name for thread in done} == {"sync-0"}
        threads.close()

    run(story())
    assert caplog.text.count("no thread can be made") == 1


def test_without_any_thread_work_is_done_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    scarce = Scarce(monkeypatch, 0)

    async def story() -> None:
        threads = SyncThreads(4)

        def broken() -> None:
            raise OSError(28, "no space left")

        assert await threads.run(threading.current_thread) is threading.main_thread()
        with pytest.raises(OSError, match="no space"):
            await threads.run(broken)
        scarce.allowed = 1
        assert await threads.run(threading.current_thread) is not threading.main_thread()
        threads.close()

    run(story())
