"""A connection of an HTTP client, which cannot hold up others however slow it is.

Rule 1. There are `MOST_CONNECTIONS`. One more takes the place of the one that has been without a request under way for
longest; else of one that does not take its answer or send the rest of its request; where all are being answered, it is
closed.
Rule 2. A request is to be here, answered and taken within `REQUEST_S`; the next one to begin within `IDLE_S`.
Rule 3. A head has `MOST_HEAD_BYTES`.
Rule 4. As on the broker's own ports, none gets a descriptor of the reserve of logs and syncs.
"""

import asyncio
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from broker.process.descriptor_limit import highest_for_connections

MOST_CONNECTIONS = 64
MOST_HEAD_BYTES = 16 << 10
REQUEST_S = 30.0
IDLE_S = 75.0
"""Longer than anybody's interval between two scrapes, so that they go on with one connection."""


class BoundedConnection(H11Protocol):
    """See the head of this file."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        waiting: "dict[BoundedConnection, None]",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`waiting` are those of all connections that have no request under way, the first has waited for longest."""
        super().__init__(config, server_state, {}, loop)
        self._waiting = waiting
        self._overdue: asyncio.TimerHandle | None = None
        self.since_s = loop.time()
        """When it was made, or its last answer was complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        socket: Any = transport.get_extra_info("socket")
        if socket is not None and socket.fileno() >= highest_for_connections():
            transport.abort()
            return
        if len(self.connections) > MOST_CONNECTIONS:
            victim = next(iter(self._waiting), None) or self._one_that_keeps_us_waiting()
            if victim is None:
                transport.abort()
                return
            victim.give_way()
        self._wait(REQUEST_S)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.is_answering:
            self._waiting.pop(self, None)

    def on_response_complete(self) -> None:
        self._wait(IDLE_S + REQUEST_S)
        if self.conn.their_state is h11.SEND_BODY:  # nobody wants the rest of its request
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.pop(self, None)
        if self._overdue is not None:
            self._overdue.cancel()
        super().connection_lost(exc)

    @property
    def is_answering(self) -> bool:
        """Whether the head of a request is here, and its answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _one_that_keeps_us_waiting(self) -> "BoundedConnection | None":
        """Whose answer is not read or whose request is not all here, for longest."""
        others = (one for one in self.connections if isinstance(one, BoundedConnection) and one is not self)
        slow = [one for one in others if one.transport.get_write_buffer_size() or one.conn.their_state is h11.SEND_BODY]
        return min(slow, key=lambda one: one.since_s, default=None)

    def give_way(self) -> None:
        """Close it without waiting for its client."""
        self._waiting.pop(self, None)
        self.transport.abort()

    def _wait(self, seconds: float) -> None:
        """The next request is to be done within so long."""
        self._waiting.pop(self, None)
        self._waiting[self] = None
        self.since_s = self.loop.time()
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self.loop.call_later(seconds, self.give_way)
