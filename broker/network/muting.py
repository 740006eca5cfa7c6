"""The timer of a connection that is muted: at most one, for the longest of the times it was muted for.

It is not served sooner when its quota is raised meanwhile. One that is muted for longer than it may be idle is closed,
as Kafka's is. One that is muted for long, and whose client has gone and has left nothing to be worked on, is closed
sooner: nobody who reads from it would notice. What a client sent before it went (acks=0) is worked on in its time.
"""

import asyncio
import fcntl
import select
import termios
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Protocol

from broker.api.context import ConnectionInfo

LONG_S = 10.0
GONE = getattr(select, "POLLRDHUP", 0)
"""What tells of a client that has gone while nobody reads; not everywhere there is such a thing."""


class Muting:
    """Of one connection; `ended` is called when it may be read from again, `frames` are what has been read of it."""

    __slots__ = ("_ended", "_timer", "frames")

    def __init__(self, ended: Callable[[], None], frames: Sized = ()) -> None:
        self._ended = ended
        self.frames = frames
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

    def lasts_beyond(self, time_s: float) -> bool:
        """Whether it is muted still at this time of its loop."""
        return self._timer is not None and self._timer.when() > time_s


class Muted(Protocol):
    """A connection that may be muted."""

    info: ConnectionInfo
    muting: Muting

    def expire(self, reason: str) -> None:
        """Close it."""


def close_those_gone(connections: Iterable[Muted]) -> Iterator[None]:
    """Look once whether clients of connections that are muted for long are still there; yields behind each that is
    not."""
    then_s = asyncio.get_running_loop().time() + LONG_S
    muted = {one.info.descriptor: one for one in connections if one.muting.lasts_beyond(then_s)}
    muted.pop(-1, None)
    if not (muted and GONE):
        return
    looking = select.poll()
    for descriptor in muted:
        looking.register(descriptor, GONE)
    for descriptor, _ in looking.poll(0):
        one = muted[descriptor]
        if not (one.info.is_lost or one.muting.frames or _unread(descriptor)):
            one.expire("its client has gone, and it was not to be read from for long")
        yield


def _unread(descriptor: int) -> bool:
    """Whether a socket has something to be read but its end."""
    return any(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
