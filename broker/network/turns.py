"""Turns of connections: one that has received much goes on with it a little at a time, and the others in between.

Rule 1. What has just been received is worked on at once, as long as connections together have not had the loop for
`TURN_S` since it last looked at its sockets.
Rule 2. Beyond that, and for a connection that has had `CONNECTION_S` at a stretch, the rest waits for its turn. Turns
are taken in the order in which they were asked for, one after another until `TURN_S` has passed; then the loop looks at
its sockets again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.005
CONNECTION_S = 0.001


class Turns:
    """Of all connections of a server; `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._worked_s = 0.0
        """How long connections have worked since the last turn began."""

    def begin(self) -> float | None:
        """When a connection that comes now begins; None where it has to wait for a turn."""
        return None if self._worked_s >= TURN_S or self._waiting else self.clock()

    def ends(self, began: float) -> bool:
        """Whether a connection that began then is to let others go on."""
        worked = self.clock() - began
        return worked >= CONNECTION_S or self._worked_s + worked >= TURN_S

    def worked(self, began: float) -> None:
        """A connection that began then has done what it could."""
        self._worked_s += self.clock() - began

    def wait(self, go_on: Callable[[], None]) -> bool:
        """`go_on` is called when it is this connection's turn, and not before this has returned (True)."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append(go_on)
        return True

    def _turn(self) -> None:
        self._worked_s = 0.0
        waiting = self._waiting
        try:
            for _ in range(len(waiting)):
                waiting[0]()  # stays in the queue meanwhile, so that nobody is served before those who wait
                waiting.popleft()
                if self._worked_s >= TURN_S:
                    break
        except BaseException:
            waiting.popleft()
            raise
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._turn)
