"""The place of one answer in the order of its connection."""

import asyncio
from collections.abc import Iterable
from typing import Any

from broker.api.catalogue import CloseConnection
from broker.api.dispatch import Call
from broker.process.logging import EventLog
from protocol.schema import Buffer

_log = EventLog("connection")


class PendingAnswer:
    """`parts` is None until the answer is known; empty for no answer."""

    __slots__ = ("call", "parts")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.parts: list[Buffer] | None = None

    def look_at_failure(self, done: "asyncio.Future[Any]") -> None:
        """Nobody waits any more; a bug is still a bug."""
        if not done.cancelled() and (error := done.exception()) is not None and not isinstance(error, CloseConnection):
            _log.bug("request failed, its client is gone", error, api=self.call.entry.name)


def size_of(parts: Iterable[Buffer]) -> int:
    return sum(map(len, parts))
