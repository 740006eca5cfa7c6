"""What a process does in one turn of its loop, counted: each call and each return of a function, in Python and in C.

Virtual time stands still while code runs, so that a loop over all partitions costs nothing in it. Its calls are as many
on any machine and on a busy one: a turn of more than `BUDGET_STEPS` is a failure of the run, which names the functions
that it was spent in. What a thread would do (a sync, the opening of a log) is not counted.

A run that is counted takes twice as long.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from tests.harness.loop import ProcessLoop, Scheduler

T = TypeVar("T")

STEP_S = 0.1e-6
"""What a step takes, or somewhat less."""
BUDGET_STEPS = 200_000
"""Twenty milliseconds."""
EVERY_STEPS = 5_000
"""How often it is noted what runs."""
COUNTED = "broker"
"""How the names of the processes begin that are counted."""
ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / package}/" for package in ("broker", "coordinator", "storage", "keystores", "protocol"))
NAMED = 5
"""Of the functions that a turn was spent in, the innermost ones."""

Call = tuple[str, int]
"""(module and function, line)"""
Look = list[Call]
"""What ran, from the outermost to the innermost."""


class _Steps:
    """How many there were, and what ran after each `EVERY_STEPS` of them in this turn."""

    def __init__(self) -> None:
        self.looks: list[Look] = []
        left, before = EVERY_STEPS, 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal left, before
            left -= 1
            if not left:
                left = EVERY_STEPS
                before += EVERY_STEPS
                self.looks.append(_calls(frame))

        self.count = count
        self.seconds = lambda: (before + EVERY_STEPS - left) * STEP_S


class CountingScheduler(Scheduler):
    """See the head of this file. `by_work`: slices of time end when so much was counted, and not only after so many
    looks at the clock."""

    def __init__(self, *, by_work: bool = False) -> None:
        self.counts = True
        """Not while a story makes what it is about."""
        self._steps = _Steps()
        self._by_work = by_work
        super().__init__()

    def run_until(self, future: Any) -> Any:
        try:
            return super().run_until(future)
        finally:
            sys.setprofile(None)
            self._end_turn()

    def slice_clock(self) -> Callable[[], float]:
        looks = super().slice_clock()
        if not self._by_work:
            return looks
        return lambda: self._steps.seconds() + (0.0 if self.counts else looks())

    def off_the_loop(self, work: Callable[[], T]) -> T:
        count = sys.getprofile()
        sys.setprofile(None)
        try:
            return work()
        finally:
            sys.setprofile(count)

    def _switch_to(self, loop: ProcessLoop) -> None:
        super()._switch_to(loop)
        sys.setprofile(self._steps.count if self.counts and loop.name.startswith(COUNTED) else None)

    def _begin_turn(self) -> int:
        if self._steps.looks:
            self._end_turn()
        return super()._begin_turn()

    def _end_turn(self) -> None:
        looks, self._steps.looks = self._steps.looks, []
        steps = len(looks) * EVERY_STEPS
        if steps > BUDGET_STEPS:
            self.failures.append(f"a turn of {steps} steps, most of them in {_spent_in(looks)}")


def _calls(innermost: FrameType | None) -> Look:
    """Those of the product, from the outermost to the innermost."""
    calls: Look = []
    while innermost is not None:
        code = innermost.f_code
        if code.co_filename.startswith(OURS):
            module = code.co_filename.rpartition("/")[2].removesuffix(".py")
            calls.append((f"{module}.{code.co_name}", innermost.f_lineno or 0))
        innermost = innermost.f_back
    return calls[::-1]


def _spent_in(looks: Sequence[Look]) -> str:
    """The calls in which the turn was at half of the looks or more: the last of them has the loop."""
    calls, depth = list[str](), 0
    seen = list(looks)
    while True:
        names = [look[depth][0] for look in seen if len(look) > depth]
        name = max(names, key=names.count, default="")
        seen = [look for look in seen if len(look) > depth and look[depth][0] == name]
        if not seen or 2 * len(seen) < len(looks):
            return " > ".join(calls[-NAMED:]) or "many calls"
        lines = sorted(look[depth][1] for look in seen)
        calls.append(f"{name}:{lines[0]}" if lines[0] == lines[-1] else f"{name}:{lines[0]}-{lines[-1]}")
        depth += 1
