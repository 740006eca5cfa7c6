"""The timer of a connection that is muted: at most one, for the longest of the times it was muted for.

It is not served sooner when its quota is raised meanwhile. One that is muted for longer than it may be idle is closed,
as Kafka's is.
"""

import asyncio
from collections.abc import Callable


class Muting:
    """Of one connection; `ended` is called when it may be read from again."""

    __slots__ = ("_ended", "_timer")

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, milliseconds: int) -> bool:
        """Whether that is longer than it is muted for already."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + milliseconds / 1000
        if self._timer is not None and self._timer.when() >= until_s:
            return False
        self.forget()
        self._timer = loop.call_at(until_s, self._end)
        return True

    def forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        self._ended()
