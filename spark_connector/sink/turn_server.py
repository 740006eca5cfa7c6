"""Turns over a socket: the driver's Python process gives them to tasks, on a connection for each.

    task -> driver   {"token": ..., "task": 3, "attempt": 17}                  once, at the beginning
    task -> driver   {"back": [[place, records], ...], "wanted": [place, ...]}
    driver -> task   {"turns": [[place, sequence], ...]}                       where "wanted" has any, at least one
    task -> driver   {"back": [...], "done": true}        or {"failed": [the error's name, its message]}
    driver -> task   {"turns": []}

Instead of turns there may be {"refused": [the error's name, its message]}.

Rule 1. A connection is its task's life: where it ends before "done", what the task had is lost (`turns`, rule 3).
Rule 2. A token that is not known is refused everything: its lease is over.
Rule 3. What cannot be read gets no answer, and the connection ends.
"""

import asyncio
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from spark_connector.conversations import LONGEST, ConversationServer
from spark_connector.errors import ConnectorError, DriverAway, TurnRefused, same_error
from spark_connector.lines import Address
from spark_connector.sink.turns import Place, Turns

_CONNECTING_S = 10.0
"""How long a driver may take to accept a connection."""


class TurnServer:
    """Answers in the driver's process, in threads of its own."""

    def __init__(self, bind: str, host: str) -> None:
        self._turns: dict[str, Turns] = {}
        self._server = ConversationServer(bind, self._answer, "spark-eos-turns")
        self.address: Address = (host, self._server.port)

    def _answer(self, questions: Iterator[Mapping[str, Any]]) -> Generator[Mapping[str, Any]]:
        """The answers to one task, until it ends."""
        begun = next(questions, None)
        if begun is None:
            return
        turns, task, attempt = self._turns.get(begun["token"]), int(begun["task"]), int(begun["attempt"])
        try:
            for asked in questions:
                if turns is None or turns.token not in self._turns:
                    yield refusal(TurnRefused("the batch is over for the driver; nothing was written by this attempt"))
                else:
                    yield answered(turns, task, attempt, asked)
        finally:
            if turns is not None:
                turns.gone(task, attempt)

    @contextmanager
    def opened(self, patience_s: float) -> Iterator[Turns]:
        """Turns for one lease; when this ends everybody is refused."""
        turns = Turns(patience_s)
        self._turns[turns.token] = turns
        try:
            yield turns
        finally:
            del self._turns[turns.token]
            turns.fail(TurnRefused("the batch is over"))

    def close(self) -> None:
        self._server.close()


def answered(turns: Turns, task: int, attempt: int, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer to what a task asks while it writes."""
    try:
        if "failed" in asked:
            turns.fail(same_error(*asked["failed"]))
        elif "done" in asked:
            turns.done(task, attempt, _pairs(asked["back"]))
        else:
            given = turns.take(task, attempt, _pairs(asked["back"]), asked["wanted"])
            return {"turns": list(given.items())}
    except ConnectorError as error:
        return refusal(error)
    return {"turns": []}


def refusal(error: ConnectorError) -> Mapping[str, Any]:
    """What a task is told in place of an answer."""
    return {"refused": [type(error).__name__, str(error)]}


def _pairs(found: Iterable[tuple[Place, int]]) -> dict[Place, int]:
    return {place: int(number) for place, number in found}


class TurnsOfTask:
    """A task's side. For one event loop, where it also waits: the answer comes when there is a turn."""

    def __init__(self, address: Address, begin: Mapping[str, Any]) -> None:
        self._address = address
        self._begin = dict(begin)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    def of(cls, address: Address, token: str, task: int, attempt: int) -> "TurnsOfTask":
        """Those that `TurnServer` gives to an attempt of a task."""
        return cls(address, {"token": token, "task": task, "attempt": attempt})

    async def take(self, back: Mapping[Place, int], wanted: Iterable[Place]) -> dict[Place, int]:
        """See `Turns.take`; the connection begins with the first question."""
        told = await self.asked({"back": list(back.items()), "wanted": list(wanted)})
        return _pairs(told["turns"])

    async def done(self) -> None:
        """All rows are written, and all turns given back. A task that has asked nothing has nothing to say."""
        if self._streams is not None:
            await self.asked({"back": [], "done": True})

    async def failed(self, error: ConnectorError) -> None:
        """Best effort: the driver notices in any case that the task has ended. On a connection of its own, for on the
        other one an answer may be waited for.
        """
        told = TurnsOfTask(self._address, self._begin)
        with suppress(ConnectorError):
            await told.asked({"failed": [type(error).__name__, str(error)]})
        await told.close()

    async def close(self) -> None:
        """A task that is not done is lost with this."""
        if self._streams is not None:
            self._streams[1].close()

    async def asked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question. Raises what the driver refuses it with; `DriverAway` where it cannot be reached."""
        streams = self._streams or await self._connected()
        try:
            _send(streams[1], question)
            answer = await streams[0].readline()
        except OSError as error:
            raise TurnRefused(self._silent(str(error))) from error
        if not answer:
            raise TurnRefused(self._silent("the connection has ended"))
        told: dict[str, Any] = json.loads(answer)
        if "refused" in told:
            raise same_error(*told["refused"])
        return told

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(_CONNECTING_S):
                self._streams = await asyncio.open_connection(*self._address, limit=LONGEST)
        except OSError as error:
            raise DriverAway(self._silent(str(error) or "no answer")) from error
        _send(self._streams[1], self._begin)
        return self._streams

    def _silent(self, why: str) -> str:
        return (
            f"the driver does not answer at {self._address[0]}:{self._address[1]}: {why}. Tasks must reach the "
            "driver's Python process there (spark.driver.host); if the driver is gone, this attempt is, too"
        )


def _send(writer: asyncio.StreamWriter, line: Mapping[str, Any]) -> None:
    writer.write(json.dumps(line).encode() + b"\n")
