"""Waiting for a store that cannot be reached: asked again and again, a little later each time. It is said once, and
again where the reason becomes another."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.process.logging import EventLog
from storage.shared.store import StoreUnreachable

T = TypeVar("T")

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0
SLOW_S = 1.0
"""After which it is said that nobody has answered yet, where somebody looks at the log: at a start."""

_log = EventLog("store")


class Patience:
    """That of one who waits: `what` is a sentence for the broker's log. With `is_seen`, an answer that takes long is
    said before it is known what becomes of it."""

    def __init__(self, what: str, *, is_seen: bool = False) -> None:
        self._what = what
        self._is_seen = is_seen
        self._said = ""
        """Why it cannot be reached, as it was said last."""

    async def until_reached(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store says, once it can be asked."""
        pause_s, self._said = FIRST_PAUSE_S, ""
        while True:
            try:
                found = await self._asked(ask)
            except StoreUnreachable as unreachable:
                self._say(str(unreachable))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if self._said:
                _log.info("the store is reached again", meanwhile=self._what)
            return found

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        if not self._is_seen or self._said:
            return await ask()
        slow = asyncio.get_running_loop().call_later(SLOW_S, self._say, "it has not answered yet")
        try:
            return await ask()
        finally:
            slow.cancel()

    def _say(self, reason: str) -> None:
        if reason != self._said:
            self._said = reason
            _log.warning("the store cannot be reached", meanwhile=self._what, reason=reason)
