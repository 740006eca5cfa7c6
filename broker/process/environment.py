"""Where the broker reads the world: clock, randomness, threads. No other module does.

A simulation brings its own `Environment` (and its own event loop), and a run is repeatable.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import NewType, Protocol, TypeVar

from broker.process.sync_threads import SyncThreads, run_far
from broker.process.time_slice import SliceQueue, TimeSlice
from storage.files import Files

BESIDE_THREADS = 2
"""One that waits for the disk keeps none from computing; more would only keep the loop from it."""
T = TypeVar("T")
WallMs = NewType("WallMs", int)
"""Milliseconds since 1970. May jump both ways; it is what records and coordinators carry."""
MonotonicMs = NewType("MonotonicMs", int)
"""Milliseconds of a clock that never goes back; it is what waits are measured with."""


measuring_clock_ns: Callable[[], int] = time.perf_counter_ns
"""For those who count how long something took; nothing is decided by it."""


class Environment(Protocol):
    """The world as the broker sees it."""

    @property
    def files(self) -> Files: ...

    def wall_ms(self) -> WallMs: ...

    def monotonic_ms(self) -> MonotonicMs: ...

    def random_bytes(self, count: int) -> bytes: ...

    def time_slice(self) -> TimeSlice:
        """For work that lets others have a turn when it has had the loop for long enough."""

    def run_blocking(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run something that may block (a sync) off the loop."""

    def run_beside(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run something that takes long and computes (opening a log) off the loop; no sync waits for it."""

    def run_far(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run something that waits for another machine off the loop; no disk and no log waits for it. Fails with
        `OSError` where it cannot be begun."""

    def boot_id(self) -> str:
        """Changes when the machine has rebooted, that is when the page cache may have been lost."""


class RealEnvironment:
    """The real one: system clock, kernel randomness, small pools of threads for syncs and for what takes longer."""

    def __init__(self, files: Files | None, *, sync_threads: int = 8) -> None:
        self._files = files
        self._threads = SyncThreads(sync_threads)
        self._beside = SyncThreads(BESIDE_THREADS)
        self._slices = SliceQueue(time.perf_counter)

    @property
    def files(self) -> Files:
        assert self._files is not None, "a broker in memory has no files"
        return self._files

    def wall_ms(self) -> WallMs:
        return WallMs(time.time_ns() // 1_000_000)

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(time.monotonic_ns() // 1_000_000)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def time_slice(self) -> TimeSlice:
        return TimeSlice(time.perf_counter, self._slices)

    def run_blocking(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._threads.run(work)

    def run_beside(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._beside.run(work)

    def run_far(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return run_far(work)

    def boot_id(self) -> str:
        return boot_id()

    def close(self) -> None:
        self._threads.close()
        self._beside.close()


def boot_id() -> str:
    """Of this machine, since it was last started; empty where it does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            return source.read().strip()
    except OSError:
        return ""


class OwnProcess:
    """This process, as the victim of fault points."""

    def crash(self) -> None:
        """What `kill -9` does: nothing is flushed, no request is answered."""
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    def freeze(self) -> None:
        """Until SIGCONT."""
        os.kill(os.getpid(), signal.SIGSTOP)

    def stand_still(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)
