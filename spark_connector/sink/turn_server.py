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
import socket
import socketserver
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from spark_connector.errors import ConnectorError, TurnRefused, same_error
from spark_connector.lines import Address
from spark_connector.sink.turns import Turns

_LONGEST = 1 << 22
_MANY_TASKS = 1024
"""Tasks may begin all at once."""
_KEPT_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A machine that is gone says nothing: after a minute its connections are taken for ended. Not every system has all."""


class TurnServer:
    """Answers in the driver's process, in threads of its own."""

    def __init__(self, bind: str, host: str) -> None:
        self._turns: dict[str, Turns] = {}
        answer = self._answer

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in _KEPT_ALIVE.items():
                    if hasattr(socket, name):
                        self.connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
                with suppress(ValueError, KeyError, TypeError, OSError):
                    lines = iter(lambda: self.rfile.readline(_LONGEST), b"")
                    with closing(answer(json.loads(line) for line in lines)) as answers:
                        for told in answers:
                            self.wfile.write(json.dumps(told).encode() + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = _MANY_TASKS

        self._server = Server((bind, 0), Handler)
        threading.Thread(target=self._server.serve_forever, name="spark-eos-turns", daemon=True).start()
        self.address: Address = (host, self._server.server_address[1])

    def _answer(self, questions: Iterator[Mapping[str, Any]]) -> Generator[Mapping[str, Any]]:
        """The answers to one task, until it ends."""
        begun = next(questions, None)
        if begun is None:
            return
        turns, task, attempt = self._turns.get(begun["token"]), int(begun["task"]), int(begun["attempt"])
        try:
            for asked in questions:
                if turns is None or turns.token not in self._turns:
                    yield _refusal(TurnRefused("the batch is over for the driver; nothing was written by this attempt"))
                else:
                    yield _answered(turns, task, attempt, asked)
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
        self._server.shutdown()
        self._server.server_close()


def _answered(turns: Turns, task: int, attempt: int, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        if "failed" in asked:
            turns.fail(same_error(*asked["failed"]))
        elif "done" in asked:
            turns.done(task, attempt, _pairs(asked["back"]))
        else:
            given = turns.take(task, attempt, _pairs(asked["back"]), asked["wanted"])
            return {"turns": list(given.items())}
    except ConnectorError as error:
        return _refusal(error)
    return {"turns": []}


def _refusal(error: ConnectorError) -> Mapping[str, Any]:
    return {"refused": [type(error).__name__, str(error)]}


def _pairs(found: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {int(place): int(number) for place, number in found}


class TurnsOfTask:
    """A task's side. For one event loop, where it also waits: the answer comes when there is a turn."""

    def __init__(self, address: Address, token: str, task: int, attempt: int) -> None:
        self._address = address
        self._begin: dict[str, Any] = {"token": token, "task": task, "attempt": attempt}
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def take(self, back: Mapping[int, int], wanted: Iterable[int]) -> dict[int, int]:
        """See `Turns.take`; the connection begins with the first question."""
        return await self._asked({"back": list(back.items()), "wanted": list(wanted)})

    async def done(self) -> None:
        """All rows are written, and all turns given back. A task that had none has nothing to say."""
        if self._streams is not None:
            await self._asked({"back": [], "done": True})

    async def failed(self, error: ConnectorError) -> None:
        """Best effort: the driver notices in any case that the task has ended. On a connection of its own, for on the
        other one an answer may be waited for.
        """
        told = TurnsOfTask(self._address, **self._begin)
        with suppress(ConnectorError):
            await told._asked({"failed": [type(error).__name__, str(error)]})
        await told.close()

    async def close(self) -> None:
        """A task that is not done is lost with this."""
        if self._streams is not None:
            self._streams[1].close()

    async def _asked(self, question: Mapping[str, Any]) -> dict[int, int]:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(*self._address, limit=_LONGEST)
                self._send(self._begin)
            self._send(question)
            answer = await self._streams[0].readline()
        except OSError as error:
            raise TurnRefused(self._silent(str(error))) from error
        if not answer:
            raise TurnRefused(self._silent("the connection has ended"))
        told = json.loads(answer)
        if "refused" in told:
            raise same_error(*told["refused"])
        return _pairs(told["turns"])

    def _send(self, line: Mapping[str, Any]) -> None:
        assert self._streams is not None
        self._streams[1].write(json.dumps(line).encode() + b"\n")

    def _silent(self, why: str) -> str:
        return (
            f"the driver does not answer at {self._address[0]}:{self._address[1]}: {why}. Tasks must reach the "
            "driver's Python process there (spark.driver.host); if the driver is gone, this attempt is, too"
        )
