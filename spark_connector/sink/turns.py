"""Who may write to which partition of a lease, and from which sequence number on: one task at a time, in its turn.

Any task may write to any partition, and all write under one producer id and epoch. To the broker that is one producer,
which numbers the records of each partition from 0 on: what comes with a number that was used it takes for a repetition,
and drops it without a word. So a number is given to one task only, and the next number only when that is acknowledged.

Rule 1. A partition is one task's at a time, and the next one's after the broker has acknowledged the former's records.
Rule 2. The first attempt of a task that has a turn is admitted; every other attempt of that task is refused. Spark
        starts more attempts when it pleases (retries, lost executors, speculation), and each writes all of its rows.
Rule 3. A turn that is not given back is nobody's. With it the batch has failed, and so has it with an admitted attempt
        that ends before it is done; then everybody is refused, and the batch is written again under a new lease.
Rule 4. Whoever asks first gets a partition first.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import count

from spark_connector.errors import BatchIncomplete, ConnectorError, TurnRefused
from tallystick.client.background import fresh_name, monotonic_s

Place = int | str
"""A partition of the lease, by whatever its tasks call it: the same name means the same partition."""
AGAIN = "it is tried again under a new lease"
_SEQUENCES = 0x7FFFFFFF
"""A sequence number has 31 bits; then it begins anew."""


class Turns:
    """The turns of one lease. Each task asks in a thread of its own.

    `then` says what follows where a task is lost. Turns that are part of something larger share its condition.
    """

    def __init__(
        self,
        patience_s: float,
        clock: Callable[[], float] = monotonic_s,
        *,
        then: str = AGAIN,
        moved: threading.Condition | None = None,
    ) -> None:
        self.token = fresh_name()
        self.records: dict[Place, int] = {}
        """By place what the broker has acknowledged."""
        self.written: dict[int, tuple[int, int]] = {}
        """By task its attempt, and the records that were acknowledged to it."""
        self.failure: ConnectorError | None = None
        """Why nothing of this lease can be committed any more."""
        self._patience_s = patience_s
        self._clock = clock
        self._out: dict[Place, tuple[int, float]] = {}
        """By place the task that has its turn, and since when."""
        self.done_tasks: set[int] = set()
        """Those that had turns and have no more to write."""
        self._waiting: dict[int, frozenset[Place]] = {}
        """What those ask for who wait, in the order of their tickets."""
        self._tickets = count()
        self._then = then
        self._moved = moved or threading.Condition()

    def take(self, task: int, attempt: int, back: Mapping[Place, int], wanted: Iterable[Place]) -> dict[Place, int]:
        """Give turns back, each with the records that were acknowledged in it; then wait for turns in some of the
        wanted places. Returns where each begins. Raises `TurnRefused`, or why the batch has failed.
        """
        with self._moved:
            self._give_back(task, attempt, back)
            ticket, wanted = next(self._tickets), frozenset(wanted)
            self._waiting[ticket] = wanted
            try:
                while wanted:
                    self._check(task, attempt)
                    ahead = [places for other, places in self._waiting.items() if other < ticket]
                    if free := wanted.difference(self._out, *ahead):
                        return self._given(task, attempt, free)
                    self._moved.wait(self._until_the_oldest_is_lost(wanted))
            finally:
                del self._waiting[ticket]
                self._moved.notify_all()
        return {}

    def done(self, task: int, attempt: int, back: Mapping[Place, int]) -> None:
        """A task has written its last record. Raises why the batch has failed: then what it wrote is lost, too, and it
        must not count as its task's result. A task without a turn has nothing that could be lost.
        """
        with self._moved:
            self._give_back(task, attempt, back)
            if self.has_admitted(task, attempt):
                if self.failure is not None:
                    raise self.failure
                self.done_tasks.add(task)

    def gone(self, task: int, attempt: int) -> None:
        """An attempt is heard of no more. It has failed the batch, unless it was done or never had a turn (rule 3)."""
        if self.has_admitted(task, attempt) and task not in self.done_tasks:
            self.fail(
                BatchIncomplete(
                    f"task {task} was lost after it had begun to write. Nothing of the batch is visible; {self._then}"
                )
            )

    def has_admitted(self, task: int, attempt: int) -> bool:
        """Whether it is this attempt that writes for a task."""
        return self.written.get(task, (None, 0))[0] == attempt

    def fail(self, error: ConnectorError) -> None:
        """Refuse everybody from now on. The first reason stays."""
        with self._moved:
            self.failure = self.failure or error
            self._moved.notify_all()

    def complete(self, results: Mapping[int, tuple[int, int]]) -> dict[Place, int]:
        """The records by place, if the tasks' results are those of the attempts that wrote, and are all that was
        written. Raises why the batch has failed.
        """
        with self._moved:
            if self.failure is not None:
                raise self.failure
            told = {task: result for task, result in results.items() if result[1]}
            if told != self.written or self._out:
                raise BatchIncomplete(
                    f"the tasks have told of {_words(told)}, and had acknowledged {_words(self.written)}: an attempt "
                    "was lost. Nothing of the batch is visible"
                )
            return dict(self.records)

    def _give_back(self, task: int, attempt: int, back: Mapping[Place, int]) -> None:
        for place, records in back.items():
            if not self.has_admitted(task, attempt) or self._out.get(place, (None, 0))[0] != task:
                raise ValueError(f"attempt {attempt} of task {task} gives back what it does not have")
            assert records > 0, "a turn that was used"
            self.records[place] = self.records.get(place, 0) + records
            self.written[task] = (attempt, self.written[task][1] + records)
            del self._out[place]
        self._moved.notify_all()

    def _check(self, task: int, attempt: int) -> None:
        if self.failure is not None:
            raise self.failure
        if self.written.get(task, (attempt, 0))[0] != attempt:
            raise TurnRefused(f"another attempt of task {task} writes its rows; nothing was written by this one")

    def _given(self, task: int, attempt: int, places: Iterable[Place]) -> dict[Place, int]:
        self.written.setdefault(task, (attempt, 0))
        self._out.update(dict.fromkeys(places, (task, self._clock())))
        return {place: self.records.get(place, 0) & _SEQUENCES for place in sorted(places, key=str)}

    def until_it_is_lost(self, task: int) -> float | None:
        """How long a task that has turns may still keep them, in seconds; None where it has none. Fails the batch if
        that was too long already. For whoever has the condition.
        """
        return self._until_the_oldest_is_lost(frozenset(place for place, out in self._out.items() if out[0] == task))

    def _until_the_oldest_is_lost(self, wanted: frozenset[Place]) -> float | None:
        """How long to wait for what others have. Fails the batch if that was too long already."""
        since = [self._out[place][1] for place in wanted if place in self._out]
        if not since:
            return None
        left_s = min(since) + self._patience_s - self._clock()
        if left_s > 0:
            return left_s
        task, _ = min((self._out[place] for place in wanted if place in self._out), key=lambda out: out[1])
        self.fail(
            BatchIncomplete(
                f"task {task} has not given its turn back within {self._patience_s:.0f} s. Nothing of the batch is "
                f"visible; {self._then}"
            )
        )
        return 0


def _words(results: Mapping[int, tuple[int, int]]) -> str:
    return ", ".join(
        f"{records} records of task {task} (attempt {attempt})" for task, (attempt, records) in sorted(results.items())
    )
