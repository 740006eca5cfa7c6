"""The world as the broker in a simulation sees it: clocks, randomness, and syncs that take their time."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

from broker.process.environment import MonotonicMs, WallMs
from broker.process.time_slice import SliceQueue, TimeSlice
from tests.harness.disk import SimulatedDisk
from tests.harness.loop import ProcessLoop, Scheduler

T = TypeVar("T")

WALL_START_MS = 1_700_000_000_000
ONE_THREAD, NO_THREAD = 1, -1
OPENING = "open a log"
"""As reported to the watcher of a disk."""


class ThreadFailed(Exception):
    """What a thread raises that nobody expects of it."""


class _Course(NamedTuple):
    """How a clock goes from one moment on, until somebody does something to it."""

    since_s: float
    start_s: float
    """What it counts from; earlier than `since_s` where it was only set."""
    offset_ms: int
    rate: float

    def ms(self, when_s: float) -> int:
        return WALL_START_MS + self.offset_ms + int((when_s - self.start_s) * 1000 * self.rate)


class WallClock:
    """The wall clock of the machine: it drifts, and somebody sets it, forwards and backwards."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._began_s = scheduler.now
        self._courses = [_Course(scheduler.now, scheduler.now, 0, 1.0)]

    def now_ms(self) -> int:
        return self._courses[-1].ms(self._scheduler.now)

    def at_ms(self, when_s: float) -> int:
        """What it showed then."""
        return next((one for one in reversed(self._courses) if one.since_s <= when_s), self._courses[0]).ms(when_s)

    def drift(self, rate: float) -> None:
        """Go so many times as fast as the monotonic clock from now on."""
        self._go_on(self.now_ms() - WALL_START_MS, rate)

    def heal(self) -> None:
        """Somebody sets it right, if it was behind."""
        right_ms = int((self._scheduler.now - self._began_s) * 1000)
        self._go_on(max(self.now_ms() - WALL_START_MS, right_ms), 1.0)

    def step(self, by_ms: int) -> None:
        course = self._courses[-1]
        self._courses.append(course._replace(since_s=self._scheduler.now, offset_ms=course.offset_ms + by_ms))

    def _go_on(self, offset_ms: int, rate: float) -> None:
        now_s = self._scheduler.now
        self._courses.append(_Course(now_s, now_s, offset_ms, rate))


class Sync:
    """Work that blocks: it is done at one moment, and heard of at a later one."""

    def __init__(self, work: Callable[[], object], after_s: float) -> None:
        self.loop = cast(ProcessLoop, asyncio.get_running_loop())
        self.answer: asyncio.Future[Any] = self.loop.create_future()
        self._work = work
        self._after_s = after_s
        self._outcome: tuple[Callable[..., None], Any] | None = None

    def reach_the_disk(self) -> None:
        if self._outcome is None:
            try:
                self._outcome = _finish, self.loop.scheduler.off_the_loop(self._work)
            except Exception as error:  # the waiting caller gets it
                self._outcome = _fail, error

    def go_through(self) -> None:
        self.reach_the_disk()
        assert self._outcome is not None
        tell, what = self._outcome
        self.loop.call_later(self._after_s, tell, self.answer, what)


class SyncGate:
    """Where a story lets syncs wait."""

    def __init__(self) -> None:
        self.is_shut = False
        self.waiting: list[Sync] = []


class SimulatedEnvironment:
    """`broker.process.environment.Environment` for one process of the broker."""

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
        self.threads = 0
        """ONE_THREAD: what blocks is done one after the other; NO_THREAD: at once, on the loop. The system makes no
        more (`broker.process.sync_threads`)."""
        self.fails: Callable[[str], str] = lambda kind: ""
        """Asked of each piece of work, "blocking" or "beside": whether a thread fails "before" or "after" it."""
        self._busy_until = 0.0
        self.gate = SyncGate()
        self._slice_clock = scheduler.slice_clock()
        self._slices = SliceQueue(self._slice_clock)
        self._beside = Random(random.getstate()[1][0])
        """Draws of its own, so that a sync takes as long however many logs were opened before it."""
        self._openings: list[asyncio.Future[Any]] = []

    @property
    def files(self) -> SimulatedDisk:
        return self._disk

    def wall_ms(self) -> WallMs:
        return WallMs(self._clock.now_ms())

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(int(self._scheduler.now * 1000))

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def time_slice(self) -> TimeSlice:
        return TimeSlice(self._slice_clock, self._slices)

    def boot_id(self) -> str:
        return self._boot_id

    def run_blocking(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """The work happens at one moment between now and its answer, so that a crash may come before, between and
        after."""
        random = self._random
        longest = self.sync_s * (50 if self.slow and random.random() < self.slow else 1)
        before, after = random.random() * longest, random.random() * longest
        if self.threads == NO_THREAD:
            before = after = 0.0
        elif self.threads == ONE_THREAD:
            begins = max(self._scheduler.now, self._busy_until)
            self._busy_until = begins + before + after
            before += begins - self._scheduler.now
        sync = Sync(self._perhaps_failing("blocking", work), after)
        if self.gate.is_shut:
            self.gate.waiting.append(sync)
        elif self.threads == NO_THREAD:
            sync.go_through()
        else:
            sync.loop.call_later(before, sync.go_through)
        return sync.answer

    @property
    def slices_waiting(self) -> int:
        """How many wait for a turn of the loop."""
        return len(self._slices._waiting)

    @property
    def is_opening(self) -> bool:
        """Whether a log is being opened."""
        return any(not answer.done() for answer in self._openings)

    def run_beside(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """As a sync, but no story keeps it waiting. The watcher of the disk is notified before and after."""
        before, after = self._beside.random() * self.sync_s, self._beside.random() * self.sync_s
        if self.threads == NO_THREAD:
            before = after = 0.0
        opening = Sync(self._perhaps_failing("beside", lambda: self._watched(work)), after)
        opening.loop.call_later(before, opening.go_through)
        self._openings = [answer for answer in (*self._openings, opening.answer) if not answer.done()]
        return opening.answer

    def run_far(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """There is no other machine."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        answer.set_exception(OSError("no route"))
        return answer

    def _perhaps_failing(self, kind: str, work: Callable[[], T]) -> Callable[[], T]:
        when = self.fails(kind)
        if not when:
            return work

        def fail() -> T:
            if when == "after":
                work()
            raise ThreadFailed(f"a thread failed {when} its work")

        return fail

    def _watched(self, work: Callable[[], T]) -> T:
        self._disk.before(OPENING, "")
        opened = work()
        self._disk.after(OPENING, "")
        return opened


def _finish(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
