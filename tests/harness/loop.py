"""Virtual time: event loops that never wait, over one scheduler that decides what runs next.

Rule 1. What is ready runs first in, first out; timers by their time, then by their age. Nothing else decides.
Rule 2. Each process of a run (the broker, the clients) has a loop of its own over the same scheduler. A process that
dies takes its loop along: none of its callbacks, timers and tasks runs again, as after `kill -9`.
Rule 3. An uncaught exception reported to a loop is kept, and fails the run.
"""

import asyncio
import inspect
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar

from tests.harness.work_clock import WorkClock

if TYPE_CHECKING:
    from tests.harness.network import Network

T = TypeVar("T")

CALLBACK_S = 1e-6
"""What a callback costs. Without, a task that polls with `sleep(0)` would stop the time."""


class Stuck(Exception):
    """Nothing is left to do, though the run is not at its end; or it does not come to an end."""


class ProcessDied(BaseException):
    """Thrown through the code of a process at the very place where it dies."""


class Entry:
    """What is to be called: of `asyncio.TimerHandle` what anybody uses, and lighter, for a run makes very many."""

    __slots__ = ("args", "callback", "context", "loop", "when_s")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: "ProcessLoop", context: Context | None
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.loop = loop
        self.context = copy_context() if context is None else context
        self.when_s = 0.0

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.when_s


class Scheduler:
    """See the head of this file."""

    def __init__(self, *, start_s: float = 1000.0, callbacks: int = 3_000_000) -> None:
        self.now = start_s
        self.callbacks_left = callbacks
        self.failures: list[str] = []
        self.ready: deque[Entry] = deque()
        self._timers: list[tuple[float, int, Entry]] = []
        self._sequence = 0
        self.machine = new_process(self, "machine")
        """What never stands still."""

    def at(self, when: float, entry: Entry) -> None:
        self._sequence += 1
        heappush(self._timers, (when, self._sequence, entry))

    def timers_of(self, loop: "ProcessLoop") -> list[str]:
        """What a process has called for a later time and not cancelled, by name."""
        callbacks = [entry.callback for _, _, entry in self._timers if entry.loop is loop]
        return [getattr(one, "__qualname__", repr(one)) for one in callbacks if one is not None]

    def run_until(self, future: "asyncio.Future[T]") -> T:
        """Run until a future of one of the loops is done. Raises `Stuck`."""
        ready = self.ready
        running: object = None
        try:
            while not future.done():
                for _ in range(self._begin_turn()):
                    entry = ready.popleft()
                    callback, loop = entry.callback, entry.loop
                    if callback is None or not loop.awake:
                        if callback is not None and loop.alive:
                            loop.held.append(entry)
                        continue
                    if loop is not running:
                        self._switch_to(loop)
                        running = loop
                    self.now += CALLBACK_S
                    try:
                        entry.context.run(callback, *entry.args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # as in asyncio: reported to the loop, which goes on
                        loop.call_exception_handler({"message": f"Exception in {callback!r}", "exception": error})
        finally:
            events._set_running_loop(None)
        return future.result()

    def _switch_to(self, loop: "ProcessLoop") -> None:
        """What is called next is of another process than what was called last."""
        events._set_running_loop(loop)

    def off_the_loop(self, work: Callable[[], T]) -> T:
        """Do what a thread does in a real process."""
        return work()

    def slice_clock(self) -> Callable[[], float]:
        """Seconds for the slices of a process. They pass with each look, so that slices end where there is little to
        do, too."""
        return WorkClock().now

    def _begin_turn(self) -> int:
        """How much is to be called in a turn, as asyncio makes them: what was ready at its begin, then the timers that
        are due. Where nothing is ready, time jumps to the next timer."""
        ready, timers = self.ready, self._timers
        if not ready:
            while timers and (timers[0][2].callback is None or not timers[0][2].loop.alive):
                heappop(timers)
            if not timers:
                raise Stuck("nothing is left to do")
            if timers[0][0] > self.now:
                self.now = timers[0][0]
        while timers and timers[0][0] <= self.now:
            ready.append(heappop(timers)[2])
        count = len(ready)
        self.callbacks_left -= count
        if self.callbacks_left < 0:
            raise Stuck("the run does not come to an end")
        return count


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop of one process."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.machine = ""
        """What the network calls the machine that it runs on."""
        self.alive = True
        self.awake = True
        """Alive, and not standing still."""
        self.wakes_at_s = 0.0
        self.held: list[Entry] = []
        """What would have been called while it stands still."""
        self.network: Network | None = None
        self.watch_tasks: Callable[[asyncio.Task[Any]], None] | None = None
        self._ready = scheduler.ready
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    def die(self) -> None:
        """Nothing of this process runs from now on. What has not begun is closed, or Python would report that nobody
        awaited it."""
        self.alive = self.awake = False
        self.held.clear()
        for task in asyncio.all_tasks(self):
            work = task.get_coro()
            if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()

    def stand_still(self, seconds: float) -> None:
        """As by SIGSTOP: what runs now comes to its end, nothing else is called for so long, and then all of it in its
        order."""
        self.awake = False
        self.wakes_at_s = max(self.wakes_at_s, self.scheduler.now + seconds)
        self.scheduler.at(self.wakes_at_s, Entry(self._wake, (), self.scheduler.machine, None))

    def _wake(self) -> None:
        if self.alive and not self.awake and self.scheduler.now >= self.wakes_at_s:
            self.awake = True
            self._ready.extendleft(reversed(self.held))
            self.held.clear()

    # -- scheduling ------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.scheduler.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Entry:
        entry = Entry(callback, args, self, context)
        self._ready.append(entry)
        return entry

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Entry:
        entry = Entry(callback, args, self, context)
        entry.when_s = self.scheduler.now + delay
        self.scheduler.at(entry.when_s, entry)
        return entry

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Entry:
        entry = Entry(callback, args, self, context)
        entry.when_s = when
        self.scheduler.at(when, entry)
        return entry

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        if self.watch_tasks is not None:
            task.add_done_callback(self.watch_tasks)
        return task

    def run_in_executor(self, *_: Any) -> "asyncio.Future[Any]":  # type: ignore[override]
        raise AssertionError("there are no threads in a simulation")

    # -- state -----------------------------------------------------------------------------------------------

    get_debug = staticmethod(bool)  # asked for with every future and task: False, and no call into Python

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self.alive

    def set_exception_handler(self, handler: Any) -> None:
        self._handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.alive or isinstance(context.get("exception"), ProcessDied):
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.scheduler.failures.append(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")

    # -- the network -----------------------------------------------------------------------------------------

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self.network is not None
        return await self.network.connect(self, protocol_factory, port)

    async def create_server(self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any) -> Any:
        assert self.network is not None
        return self.network.listen(self, protocol_factory, sock.getsockname()[1])


def new_process(scheduler: Scheduler, name: str) -> ProcessLoop:
    """Typeshed requires all of a loop's methods; asyncio itself, and we, live with those that are used."""
    return ProcessLoop(scheduler, name)  # type: ignore[abstract]


def run_on(loop: ProcessLoop, work: Awaitable[T]) -> T:
    """Run a coroutine on one of the loops, and everything else meanwhile, until it is done."""
    events._set_running_loop(loop)
    try:
        task = asyncio.ensure_future(work, loop=loop)
    finally:
        events._set_running_loop(None)
    return loop.scheduler.run_until(task)
