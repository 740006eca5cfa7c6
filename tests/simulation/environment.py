"""The world as the broker in a simulation sees it: clocks, randomness, and syncs that take their time."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from broker.environment import MonotonicMs, WallMs
from tests.simulation.disk import SimulatedDisk
from tests.simulation.loop import Scheduler

T = TypeVar("T")

WALL_START_MS = 1_700_000_000_000


class WallClock:
    """The wall clock of the machine: it drifts, and somebody sets it, forwards and backwards."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._began = self._start = scheduler.now
        self._rate = 1.0
        self.offset_ms = 0

    def now_ms(self) -> int:
        return WALL_START_MS + self.offset_ms + int((self._scheduler.now - self._start) * 1000 * self._rate)

    def drift(self, rate: float) -> None:
        """Go so many times as fast as the monotonic clock from now on."""
        self.offset_ms = self.now_ms() - WALL_START_MS
        self._start = self._scheduler.now
        self._rate = rate

    def heal(self) -> None:
        """Somebody sets it right, if it was behind."""
        self.drift(1.0)
        self.offset_ms = max(self.offset_ms, int((self._start - self._began) * 1000))

    def step(self, by_ms: int) -> None:
        self.offset_ms += by_ms


class SyncGate:
    """Where a story lets syncs wait."""

    def __init__(self) -> None:
        self.is_shut = False
        self.waiting: list[Callable[[], object]] = []

    def enter(self, begin: Callable[[], object]) -> None:
        if self.is_shut:
            self.waiting.append(begin)
        else:
            begin()


class SimulatedEnvironment:
    """`broker.environment.Environment` for one process of the broker."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: WallClock,
        disk: SimulatedDisk,
        random: Random,
        *,
        boot_id: str,
        sync_s: float,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._disk = disk
        self._random = random
        self._boot_id = boot_id
        self.sync_s = sync_s
        """The longest a sync takes, usually."""
        self.slow = 0.0
        """How often it takes fifty times that."""
        self.gate = SyncGate()

    @property
    def files(self) -> SimulatedDisk:
        return self._disk

    def wall_ms(self) -> WallMs:
        return WallMs(self._clock.now_ms())

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(int(self._scheduler.now * 1000))

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def boot_id(self) -> str:
        return self._boot_id

    def run_blocking(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """The work happens at one moment between now and its answer, so that a crash may come before, between and
        after."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        random = self._random
        longest = self.sync_s * (50 if self.slow and random.random() < self.slow else 1)
        before, after = random.random() * longest, random.random() * longest

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # whoever waits gets it
                loop.call_later(after, _fail, answer, error)
            else:
                loop.call_later(after, _finish, answer, result)

        self.gate.enter(lambda: loop.call_later(before, run))
        return answer


def _finish(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
