"""A micro-batch of `kafka-eos` that all its tasks write: under which lease they do, and when it begins anew.

Spark gives the format no place of its own on the driver before the tasks run, and no way to try a batch again as a
whole. So the first task that comes takes the lease, the others wait for it; and where a task is lost the batch begins
anew under another lease as long as Spark can still run everything again that was written under the one before.

Rule 1. One attempt at a time takes the lease. Where it is gone before it has told it, or takes too long, the next one
        takes another.
Rule 2. A lease whose turns have failed is over: whoever wrote under it is refused everything, its end above all, so
        that Spark tries it again.
Rule 3. The batch begins anew unless a task is done: what Spark has as a task's result it does not run again, and that
        task's rows are gone with the lease. Of the asker's own task this is not true: Spark asks for it again.
Rule 4. An attempt waits while another one of its task writes, and is refused when that one is done (speculation). Was
        it done before, then its result was lost; or it is only just on its way, so there is a grace.
Rule 5. What is complete or given up does not begin anew: it is being committed, or its lease has been aborted.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connector.errors import BatchIncomplete, ConnectorError, TaskLost, TurnRefused
from spark_connector.sink.turns import Place, Turns
from tallystick.client.background import monotonic_s

_THEN = (
    "Spark tries its tasks again where it may (spark.task.maxFailures) and none of them is done; else the query ends, "
    "and a restart goes on from its checkpoint: nothing is lost, and nothing doubled"
)
_GRACE_S = 5.0
"""How long a task that is done is given until Spark has its result, and ends its copies by itself."""


@dataclass
class Life:
    """A batch under one lease."""

    number: int
    turns: Turns
    opener: tuple[int, int] | None = None
    """The task and attempt that takes the lease."""
    opening_since: float = 0.0
    opened: Mapping[str, Any] | None = None
    """What that one has told of it."""
    is_over: bool = False
    """Whether it is complete, or Spark has given the batch up."""


class SharedBatch:
    """See the head of this file. Each task asks in a thread of its own."""

    def __init__(
        self, patience_s: float, clock: Callable[[], float] = monotonic_s, *, grace_s: float = _GRACE_S
    ) -> None:
        self._patience_s = patience_s
        self._grace_s = grace_s
        self._clock = clock
        self._moved = threading.Condition()
        self.told: list[Mapping[str, Any]] = []
        """What was told of all leases so far."""
        self._life = self._next_life(0)

    def begin(self, task: int, attempt: int) -> Life:
        """The life in which an attempt may write. Where its lease is not told yet, the asker is to take it and to tell
        it by `opened`. Waits for others as long as it has to. Raises why there is nothing to write.
        """
        has_waited, came = False, self._clock()
        with self._moved:
            while True:
                life = self._life
                first = life.turns.written.get(task, (attempt, 0))[0]
                if life.is_over:
                    raise TurnRefused("the batch is complete or given up; nothing was written by this attempt")
                if life.turns.failure is not None:
                    self._begin_anew(task, life.turns.failure)
                elif first != attempt and task in life.turns.done_tasks:
                    if has_waited:
                        raise TurnRefused(f"another attempt of task {task} was done; nothing was written by this one")
                    left_s = came + self._grace_s - self._clock()
                    if left_s > 0:
                        self._moved.wait(left_s)
                    else:
                        self._begin_anew(task, _lost_result(task))
                elif first != attempt:
                    has_waited = True
                    self._moved.wait(life.turns.until_it_is_lost(task))
                elif life.opened is not None:
                    return life
                elif life.opener is None or self._opening_left_s(life) <= 0:
                    life.opener, life.opening_since = (task, attempt), self._clock()
                    return life
                else:
                    self._moved.wait(self._opening_left_s(life))

    def opened(self, life: Life, task: int, attempt: int, told: Mapping[str, Any]) -> None:
        """The opener has taken the lease. Raises `TurnRefused` where somebody else is the opener by now."""
        with self._moved:
            if self._life.is_over:
                raise TurnRefused("the batch is over")
            if life.opener != (task, attempt):
                raise TurnRefused("another task takes the lease, this one took too long")
            life.opened = told
            self.told.append(told)
            self._moved.notify_all()

    def life(self, number: int) -> Life | None:
        """The life of that number, if it is the one that goes on."""
        return self._life if self._life.number == number else None

    def gone(self, life: Life, task: int, attempt: int) -> None:
        """An attempt is heard of no more."""
        with self._moved:
            if life.opener == (task, attempt) and life.opened is None:
                life.opener = None
                self._moved.notify_all()
        life.turns.gone(task, attempt)

    def complete(self, number: int, results: Mapping[int, tuple[int, int]]) -> dict[Place, int]:
        """The records by place, if the results that Spark has are all that was written. Raises why they are not."""
        with self._moved:
            life = self.life(number)
            if life is None:
                raise BatchIncomplete(f"Spark has a result of a try at this batch that was given up; {_THEN}")
            records = life.turns.complete(results)
            life.is_over = True
            self._moved.notify_all()
            return records

    def end(self) -> None:
        """Nobody writes this batch any more."""
        with self._moved:
            self._life.is_over = True
            self._life.turns.fail(TurnRefused("the batch is over"))

    def _opening_left_s(self, life: Life) -> float:
        """How long its opener is still waited for."""
        return life.opening_since + self._patience_s - self._clock()

    def _begin_anew(self, task: int, why: ConnectorError) -> None:
        life = self._life
        others = life.turns.done_tasks - {task}
        if others:
            raise _ended(why, len(others))
        life.turns.fail(why)
        self._life = self._next_life(life.number + 1)
        self._moved.notify_all()

    def _next_life(self, number: int) -> Life:
        return Life(number, Turns(self._patience_s, then=_THEN, moved=self._moved))


def _lost_result(task: int) -> ConnectorError:
    return BatchIncomplete(f"task {task} had written all its rows, and its result was lost; {_THEN}")


def _ended(why: ConnectorError, done: int) -> ConnectorError:
    """What a query ends with that cannot be helped."""
    if not isinstance(why, BatchIncomplete):
        return why
    return TaskLost(
        f"a task of this batch was lost when {done} other {'task was' if done == 1 else 'tasks were'} done, and Spark "
        f"does not run those again: {why}"
    )
