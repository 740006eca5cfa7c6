"""Waiting for a store that cannot be reached: asked again and again, a little later each time, and said once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.process.logging import EventLog
from storage.shared.store import StoreUnreachable

T = TypeVar("T")

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0

_log = EventLog("store")


class Patience:
    """That of one who waits: `what` is a sentence for the broker's log."""

    def __init__(self, what: str) -> None:
        self._what = what

    async def until_reached(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store says, once it can be asked."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                found = await ask()
            except StoreUnreachable as unreachable:
                if pause_s == FIRST_PAUSE_S:
                    _log.warning("the store cannot be reached", meanwhile=self._what, reason=unreachable)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if pause_s > FIRST_PAUSE_S:
                _log.info("the store is reached again", meanwhile=self._what)
            return found
