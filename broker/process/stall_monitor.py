"""Counts turns of the event loop that took too long, and says what ran meanwhile.

How: a timer beats on the loop; how late it is is how long the loop was busy with something else. Each beat sets an
alarm of the kernel for the moment at which the next one is overdue; its signal handler sees what runs then. (uvloop
does not report slow callbacks, and a thread that looks would take the interpreter's lock from the loop.) A loop that
does something has a hundred beats a second, an idle one twenty; a beat costs some ten microseconds.

A turn is measured from the beat that was due during it, and so shorter than it was by up to the time
between two beats. `cpu_ms` is how much
of it the loop's thread computed: a turn that was long and computed little waited for a file or for a busy machine.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from broker.process.logging import EventLog

BEAT_S = 0.01
IDLE_BEAT_S = 0.05
IDLE_SHARE = 0.05
"""Of a beat: a loop that computes less is idle."""
LINE_EVERY_S = 10.0
FRAMES = 12
"""Of a stack, the innermost ones."""

OUTERMOST = "/asyncio/runners.py"
"""Calls further out are the same whatever runs."""

_log = EventLog("loop")


@dataclass(frozen=True, slots=True)
class Stall:
    """One turn that took too long."""

    ms: int
    cpu_ms: int
    ran: str
    """The calls from the outermost to the innermost; empty where it was over before anybody looked, or none of ours."""


class StallMonitor:
    """See the head of this file. `clock` and `cpu_clock` give seconds and never go back."""

    def __init__(
        self,
        threshold_ms: int,
        *,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.threshold_ms = threshold_ms
        self.turns_over = 0
        self.turns_over_100_ms = 0
        self.worst: Stall | None = None
        self.last: Stall | None = None
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._due = 0.0
        self._cpu = 0.0
        self._seen = ""
        """What ran when the beat was overdue."""
        self._unsaid = 0
        self._worst_unsaid: Stall | None = None
        self._next_line = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._handler_before: Any = None

    @property
    def worst_ms(self) -> int:
        return 0 if self.worst is None else self.worst.ms

    def start(self) -> None:
        """Watch the running loop, which is to be that of the main thread."""
        self._handler_before = signal.signal(signal.SIGALRM, lambda _, frame: self.look(frame))
        self._begin(BEAT_S)

    def stop(self) -> None:
        """Watch no more, and say what there was."""
        if self._timer is not None:
            self._timer.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler_before)
        self.report()

    def report(self) -> None:
        """One line with all that was counted; `at` makes each a line of its own."""
        _log.info(
            "turns of the loop that took too long",
            over_ms=self.threshold_ms,
            turns=self.turns_over,
            over_100_ms=self.turns_over_100_ms,
            worst_ms=self.worst_ms,
            at=f"{self._clock():.3f}",
            ran=self.worst.ran if self.worst is not None else "",
        )

    # ------------------------------------------------------------------ on the loop

    def _begin(self, beat_s: float) -> None:
        self._cpu = self._cpu_clock()
        self._due = self._clock() + beat_s
        self._timer = asyncio.get_running_loop().call_later(beat_s, self._beat)
        signal.setitimer(signal.ITIMER_REAL, beat_s + self.threshold_ms / 1000)

    def _beat(self) -> None:
        idle = self._cpu_clock() - self._cpu < IDLE_SHARE * BEAT_S
        self.look_back()
        self._begin(IDLE_BEAT_S if idle else BEAT_S)

    def look_back(self) -> None:
        """A beat is there: how late is it?"""
        now = self._clock()
        late_ms = int((now - self._due) * 1000)
        if late_ms >= self.threshold_ms:
            self._count(Stall(late_ms, int((self._cpu_clock() - self._cpu) * 1000), self._seen))
        self._seen = ""
        if self._unsaid and now >= self._next_line:
            self._say(now)

    def _count(self, stall: Stall) -> None:
        self.turns_over += 1
        self.turns_over_100_ms += stall.ms >= 100
        self.last = stall
        self._unsaid += 1
        if self.worst is None or stall.ms > self.worst.ms:
            self.worst = stall
        if self._worst_unsaid is None or stall.ms > self._worst_unsaid.ms:
            self._worst_unsaid = stall

    def _say(self, now: float) -> None:
        worst = self._worst_unsaid
        assert worst is not None
        _log.warning(
            "the loop was kept busy", turns=self._unsaid, worst_ms=worst.ms, cpu_ms=worst.cpu_ms, ran=worst.ran
        )
        self._unsaid, self._worst_unsaid = 0, None
        self._next_line = now + LINE_EVERY_S

    def look(self, frame: FrameType | None) -> None:
        """A beat is overdue: this runs."""
        self._seen = _calls(frame)


def _calls(frame: FrameType | None) -> str:
    calls: list[str] = []
    while frame is not None and len(calls) < FRAMES:
        code = frame.f_code
        if code.co_filename.endswith(OUTERMOST):
            break
        module = code.co_filename.rpartition("/")[2].removesuffix(".py")
        calls.append(f"{module}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(calls))
