"""Shared batches over a socket: in the driver's Python process, for the tasks and the commit worker of `kafka-eos`.

    task -> driver   {"token": ..., "batch": ..., "patience_s": ..., "task": 3, "attempt": 17}   once
    task -> driver   {"begin": true}
    driver -> task   {"life": 0, "opened": null}       take the lease and tell it, or what was told
    task -> driver   {"opened": {...}}                 answered by {"turns": []}; from here on as in `turn_server`

    commit -> driver {"token": ..., "batch": ..., "life": 0, "results": [[task, [attempt, records]], ...]}
    driver -> commit {"turns": []}                     what Spark has the results of is all that was written
    commit -> driver {"token": ..., "batch": ..., "over": true}
    driver -> commit {"opened": [...]}                 what was told of every lease of all batches whose name begins so;
                                                       nobody writes them any more

Instead of an answer there may be {"refused": [the error's name, its message]}.

Rule 1. Who does not know the token gets no answer: it comes with the sink, from the driver's own program.
Rule 2. A batch is there as soon as somebody asks for it. One that is complete or over is kept for a while: who comes
        late must not begin it anew. The oldest are forgotten, also of those that nobody has ended.
"""

import hmac
import threading
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_connector.conversations import ConversationServer
from spark_connector.errors import ConnectorError, DriverAway, TurnRefused
from spark_connector.lines import Address
from spark_connector.progress import Marker
from spark_connector.sink.batch_transaction import Opened
from spark_connector.sink.lease_notes import bound_address
from spark_connector.sink.shared_batch import Life, SharedBatch
from spark_connector.sink.turn_server import TurnsOfTask, answered, refusal
from tallystick.client.background import fresh_name, monotonic_s
from tallystick.client.lease import Lease

_MOST_BATCHES = 1000
_MOST_ENDED = 50
_LEFT_ALONE_S = 60.0
"""How long a driver that cannot be reached is not tried again by a task that can do without it: batches are not to wait
for each try.
"""
_left_alone: dict[Address, float] = {}
"""Drivers that this process could not reach, and until when they are left alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """Who has written: a task's attempt, in one life of a batch."""

    task: int
    attempt: int
    life: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the driver is reached; can be pickled. `token` shows that the asker is ours."""

    address: Address
    token: str

    def task(self, batch: str, task: int, attempt: int, patience_s: float) -> "TurnsOfBatch":
        """A task's side."""
        begin = {"token": self.token, "batch": batch, "patience_s": patience_s, "task": task, "attempt": attempt}
        return TurnsOfBatch(self.address, begin)

    async def complete(self, batch: str, life: int, results: Mapping[int, tuple[int, int]]) -> None:
        """See `SharedBatch.complete`."""
        await self._asked({"batch": batch, "life": life, "results": list(results.items())})

    async def over(self, batch: str) -> list[Opened]:
        """Every lease that was taken for the batches whose name begins so; they end with this."""
        answer = await self._asked({"batch": batch, "over": True})
        return [_opened(told) for told in answer["opened"]]

    async def _asked(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        asking = TurnsOfTask(self.address, {"token": self.token, "batch": question["batch"]})
        try:
            return await asking.asked(question)
        finally:
            await asking.close()


class TurnsOfBatch(TurnsOfTask):
    """A task's side, with the beginning of its batch."""

    async def begin(self) -> Opened | None:
        """What was found when the lease was taken; None: the asker is to take it, and to say so by `opened`. Raises
        `DriverAway` where the driver cannot be reached.
        """
        if self._begin["task"] == 0 and monotonic_s() < _left_alone.get(self._address, 0):
            raise DriverAway(self._silent("it could not be reached a moment ago"))
        try:
            answer = await self.asked({"begin": True})
        except DriverAway:
            _left_alone[self._address] = monotonic_s() + _LEFT_ALONE_S
            raise
        self._begin["life"] = answer["life"]
        return None if answer["opened"] is None else _opened(answer["opened"])

    async def opened(self, found: Opened) -> None:
        """The lease is taken; this is what was found."""
        done = None if found.done is None else asdict(found.done)
        await self.asked({"opened": {"lease": asdict(found.lease), "done": done}})

    @property
    def part(self) -> Part:
        """Of an attempt that has begun."""
        return Part(self._begin["task"], self._begin["attempt"], self._begin["life"])


def _opened(told: Mapping[str, Any]) -> Opened:
    done = told["done"]
    return Opened(Lease(**told["lease"]), None if done is None else Marker(**done))


class BatchServer:
    """The shared batches, in the driver's Python process."""

    def __init__(self, bind: str, host: str) -> None:
        self._token = fresh_name()
        self._batches: dict[str, SharedBatch] = {}
        self._ended: deque[str] = deque()
        self._changing = threading.Lock()
        self._server = ConversationServer(bind, self._answer, "spark-eos-batches")
        self.sharing = Sharing((host, self._server.port), self._token)

    def close(self) -> None:
        self._server.close()

    def _answer(self, questions: Iterator[Mapping[str, Any]]) -> Generator[Mapping[str, Any]]:
        begun = next(questions, None)
        if begun is None or not hmac.compare_digest(str(begun["token"]), self._token):
            return
        if "task" in begun:
            batch = self._batch(str(begun["batch"]), float(begun["patience_s"]))
            yield from _to_task(batch, begun, questions)
        else:
            for asked in questions:
                yield self._to_commit_worker(str(begun["batch"]), asked)

    def _batch(self, name: str, patience_s: float) -> SharedBatch:
        with self._changing:
            if name not in self._batches:
                self._batches[name] = SharedBatch(patience_s)
                if len(self._batches) > _MOST_BATCHES:
                    self._forget(next(iter(self._batches)))
            return self._batches[name]

    def _forget(self, name: str) -> None:
        batch = self._batches.pop(name, None)
        if batch is not None:
            batch.end()

    def _end(self, name: str) -> None:
        """A batch is complete or over; the oldest of these is forgotten."""
        if name not in self._ended:
            self._ended.append(name)
        if len(self._ended) > _MOST_ENDED:
            self._forget(self._ended.popleft())

    def _over(self, beginning: str) -> list[Mapping[str, Any]]:
        """What was told of the leases of some batches, which end with this."""
        told: list[Mapping[str, Any]] = []
        for name in [name for name in self._batches if name.startswith(beginning)]:
            self._batches[name].end()
            told += self._batches[name].told
            self._end(name)
        return told

    def _to_commit_worker(self, name: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if "over" in asked:
            with self._changing:
                return {"opened": self._over(name)}
        found = self._batches.get(name)
        try:
            if found is None:
                raise TurnRefused("the driver does not know this batch any more")
            found.complete(int(asked["life"]), {int(task): tuple(result) for task, result in asked["results"]})
            with self._changing:
                self._end(name)
        except ConnectorError as error:
            return refusal(error)
        return {"turns": []}


def _to_task(
    batch: SharedBatch, begun: Mapping[str, Any], questions: Iterator[Mapping[str, Any]]
) -> Generator[Mapping[str, Any]]:
    """The answers to one attempt of a task, until it ends."""
    task, attempt = int(begun["task"]), int(begun["attempt"])
    life: Life | None = None if "life" not in begun else batch.life(int(begun["life"]))
    try:
        for asked in questions:
            if "begin" in asked or (life is not None and "opened" in asked):
                try:
                    if life is None:
                        life = batch.begin(task, attempt)
                        yield {"life": life.number, "opened": life.opened}
                    else:
                        batch.opened(life, task, attempt, asked["opened"])
                        yield {"turns": []}
                except ConnectorError as error:
                    yield refusal(error)
            elif life is None:
                yield refusal(TurnRefused("this try at the batch was given up"))
            elif "failed" in asked and not life.turns.has_admitted(task, attempt):
                yield {"turns": []}  # Nothing of it is written: another attempt may do all of it.
            else:
                yield answered(life.turns, task, attempt, asked)
    finally:
        if life is not None:
            batch.gone(life, task, attempt)


_served: dict[int, BatchServer] = {}
"""By the JVM of the session."""


def sharing_of(session: SparkSession) -> Sharing | None:
    """That of a session; None where this process is not its driver (Spark Connect), or no port is to be had."""
    where = bound_address(session)
    if where is None:
        return None
    key = id(session.sparkContext._gateway)
    if key not in _served:
        try:
            _served[key] = BatchServer(*where)
        except OSError:
            return None
    return _served[key].sharing


def results_of(parts: Sequence[tuple[Part, int]]) -> dict[int, tuple[int, int]]:
    """By task its attempt and its records."""
    return {part.task: (part.attempt, records) for part, records in parts}
