"""Answers that wait for one before them: the order in which they leave a connection (I46)."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from broker.api.catalogue import CloseConnection, Deferred
from broker.api.dispatch import Call
from broker.process.logging import EventLog
from protocol.errors import ProtocolError
from protocol.schema import Buffer

PRODUCE_KEY: Final = b"\0\0"
"""How a Produce begins."""
LONG_POLLS = {1, 11, 14, 78}
"""Fetch, JoinGroup, SyncGroup, ShareFetch."""

_log = EventLog("connection")


class PendingAnswer:
    """`parts` is None until the answer is known; empty for no answer."""

    __slots__ = ("call", "parts", "request_bytes")

    def __init__(self, call: Call, request_bytes: int = 0) -> None:
        self.call = call
        self.request_bytes = request_bytes
        self.parts: list[Buffer] | None = None

    @property
    def only_waits(self) -> bool:
        """Whether the request asks for something that may be long in coming, and does nothing meanwhile."""
        return self.call.context.api_key in LONG_POLLS

    def drop(self, done: "asyncio.Future[Any]") -> None:
        """The client is gone; a bug is still a bug. What would have waited for the answer is not begun."""
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            result = done.result()
            if isinstance(result, Deferred) and isinstance(result.answer, Coroutine):
                result.answer.close()
        elif not isinstance(error, CloseConnection | ProtocolError):
            _log.bug("request failed, its client is gone", error, api=self.call.entry.name)


class AnswersInOrder:
    """Of one connection. `known_bytes`: of those that are known and wait for one before them."""

    __slots__ = ("known_bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[PendingAnswer] = deque()
        self.known_bytes = 0

    def put(self, answer: PendingAnswer) -> None:
        """Behind all others."""
        self.waiting.append(answer)
        if answer.parts:
            self.known_bytes += _size(answer.parts)

    def known(self, answer: PendingAnswer, send: Callable[[list[Buffer]], None]) -> None:
        """The parts of an answer are there now; `send` whatever nothing stands before."""
        waiting = self.waiting
        if len(waiting) == 1 and waiting[0] is answer:
            waiting.clear()
            send(answer.parts or [])
            return
        self.known_bytes += _size(answer.parts)
        while waiting and waiting[0].parts is not None:
            parts = waiting.popleft().parts or []
            self.known_bytes -= _size(parts)
            send(parts)


def _size(parts: Iterable[Buffer] | None) -> int:
    return sum(map(len, parts or ()))
