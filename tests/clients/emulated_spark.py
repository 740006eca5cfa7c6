"""Spark's part of a write, without Spark: tasks in threads, tried again, copied, their results lost; then the commit.

What Spark promises, and what it does not (all of it was seen on a real one): a task's first result that is heard is its
result; tasks are tried again up to a number of failures; a copy may run beside its task, and whoever ends later is not
heard; a result may be lost on its way; `commit` has one result of each task; `abort` follows a commit that raised.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from random import Random
from typing import Any

from spark_connector.sink.kafka_eos import Written

MOST_FAILURES = 4
_here = threading.local()
_attempts = itertools.count(1)


class JobFailed(Exception):
    """A task failed too often, or the commit did."""


@dataclass(frozen=True)
class Context:
    """What a task may ask of `TaskContext`."""

    task: int
    attempt: int

    @staticmethod
    def get() -> "Context":
        found: Context = _here.context
        return found

    def partitionId(self) -> int:
        return self.task

    def taskAttemptId(self) -> int:
        return self.attempt


@dataclass
class Scheduler:
    """Runs one job. `write` gets the number of its task; what it raises is a failure of the task."""

    tasks: int
    cores: int
    chance: Random
    losses: int
    """How many results may be lost."""
    copies: int
    """How many copies may be started."""
    results: dict[int, Written] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """What tasks have failed with."""

    def run(self, writer: Any, write: Callable[[int], Written]) -> None:
        """Returns when the job is committed. Raises `JobFailed` when it is aborted."""
        with ThreadPoolExecutor(self.tasks + self.cores) as threads:
            try:
                self._all_tasks(threads, write)
                writer.commit([self.results[task] for task in sorted(self.results)])
            except Exception as error:
                writer.abort([self.results.get(task) for task in range(self.tasks)])
                raise JobFailed(f"{error}; tasks failed with {self.said}") from error

    def _all_tasks(self, threads: ThreadPoolExecutor, write: Callable[[int], Written]) -> None:
        waiting, failures = list(range(self.tasks)), Counter[int]()
        running: dict[Future[Written], int] = {}

        def start(task: int) -> None:
            running[threads.submit(_attempt, write, task)] = task

        while len(self.results) < self.tasks:
            while waiting and len(running) < self.cores:
                start(waiting.pop(0))
            if self.copies and running and len(running) < self.cores and self.chance.random() < 0.3:
                self.copies -= 1
                start(self.chance.choice(sorted(running.values())))
            ended, _ = wait(running, timeout=0.01, return_when=FIRST_COMPLETED)
            for one in ended:
                task = running.pop(one)
                is_again = task not in self.results and not self._is_result(one, task, failures)
                if is_again and task not in waiting and task not in running.values():
                    waiting.append(task)

    def _is_result(self, one: "Future[Written]", task: int, failures: Counter[int]) -> bool:
        """Whether Spark has the task's result now. Raises what the task has failed with too often."""
        error = one.exception()
        if error is not None:
            self.said.append(f"{type(error).__name__}: {error}")
            failures[task] += 1
            if failures[task] >= MOST_FAILURES:
                raise error
        elif self.losses > 0 and self.chance.random() < 0.2:
            self.losses -= 1
        else:
            self.results[task] = one.result()
        return task in self.results


def _attempt(write: Callable[[int], Written], task: int) -> Written:
    _here.context = Context(task, next(_attempts))
    return write(task)


def rows_of_tasks(chance: Random, tasks: int, rows: int) -> list[Sequence[int]]:
    """Numbers dealt out to tasks; some have none."""
    ends = sorted(chance.randint(0, rows) for _ in range(tasks - 1))
    return [range(begin, end) for begin, end in zip([0, *ends], [*ends, rows], strict=True)]
