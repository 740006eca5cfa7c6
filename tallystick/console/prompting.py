"""Connections that ask for nothing are ended: whoever opens many of them keeps nobody out.

A request is to be there, with all its headers, between two looks at its connection; the forms that follow have a time
limit of their own (`application`). A request that is being answered may take as long as it takes.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

LOOKED_AT_EVERY_S = 10.0


class Prompt(H11Protocol):
    """See the head of this file."""

    looked_at_every_s = LOOKED_AT_EVERY_S
    _next_look: asyncio.TimerHandle | None = None
    _seen: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._next_look = self.loop.call_later(self.looked_at_every_s, self._look)

    def _look(self) -> None:
        cycle: Any = self.cycle
        is_idle = cycle is None or cycle.response_complete
        if is_idle and cycle is self._seen:
            self.transport.abort()
            return
        self._seen = cycle
        self._look_later()
