"""The bytes that clients make the broker hold: a budget for requests, one for answers, and who gives way.

Requests
Rule 1. They count as their bytes arrive, not as a client announces them: a lie about a length costs nothing.
Rule 2. While the budget is used up, a connection reads on as long as it holds less than its share: the budget divided
by the number of connections that hold something. Who holds more stops reading, so that clients that send half of a
large request and then nothing take from their own share, and nobody else waits for them.
Rule 3. So that half-received requests cannot wait for each other for ever, one connection at a time may go beyond its
share (the overdraft) until its requests are dealt with. It is passed on when others wait and next to nothing came in a
tenth of a second: what a client has sent while we did not read is there at once, and who sends no more waits for
nothing. Otherwise each half-sent request would hold up all others until it is found stuck.
Rule 4. Shares get smaller as connections come, and what they hold already does not. At twice the budget one of those
that hold more than their share is closed: whoever has made no progress for longest though we read from it; where we
read from none of them, whoever holds most.

Answers
Rule 5. They count while their client does not take them. They make further fetch answers small, and at the end of the
budget the connection that has taken nothing for longest is closed.
"""

from collections.abc import Callable
from typing import Final, Protocol

OVERDRAFT_S = 0.1
OVERDRAFT_BYTES = 16 << 10
"""What has to come in that time (rule 3)."""
OVERDRAWN: Final = 2
"""How often the budget may be used before a connection is closed (rule 4)."""


class Holder(Protocol):
    """A connection, as far as it holds memory."""

    def expire(self, reason: str) -> None:
        """Close it without waiting for its client."""


class MemoryBudget:
    """Bytes of requests held, with a queue of connections that wait for room."""

    def __init__(self, limit_bytes: int, later: Callable[[float, Callable[[], None]], object]) -> None:
        """`later(seconds, callback)` calls back after a time."""
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._later = later
        self._held: dict[Holder, int] = {}
        """The connection without progress for longest comes first."""
        self._waiting: dict[Holder, Callable[[], None]] = {}
        self._overdraft: Holder | None = None
        self._overdraft_progress = 0
        self._watching = False

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def change(self, owner: Holder, size_bytes: int) -> None:
        """It holds so much more, or less, than before."""
        if size_bytes > 0:
            self.take(owner, size_bytes)
        else:
            self.give_back(owner, -size_bytes)

    def take(self, owner: Holder, size_bytes: int) -> None:
        """Count bytes that are already here; never refuses, but may close a connection that has too much."""
        self.used_bytes += size_bytes
        self._held[owner] = self._held.pop(owner, 0) + size_bytes
        if owner is self._overdraft:
            self._overdraft_progress += size_bytes
        while self.used_bytes >= OVERDRAWN * self.limit_bytes and len(self._held) > 1:
            victim = self._victim()
            self.leave(victim)
            victim.expire("it holds more than its share of the memory for requests, which is used up")

    def _victim(self) -> Holder:
        share = self._share
        silent = (one for one, held in self._held.items() if held >= share and one not in self._waiting)
        return next(silent, None) or max(self._held, key=self._held.__getitem__)

    def give_back(self, owner: Holder, size_bytes: int) -> None:
        held = self._held.get(owner)
        if held is None:
            return  # it was closed for what it held
        assert size_bytes <= held
        if size_bytes == held:
            self.leave(owner)
            return
        self._held[owner] = held - size_bytes
        self.used_bytes -= size_bytes
        self._wake()

    def leave(self, owner: Holder) -> None:
        """`owner` holds nothing any more, or is gone: it needs neither overdraft nor a place in the queue."""
        self.used_bytes -= self._held.pop(owner, 0)
        self._waiting.pop(owner, None)
        if self._overdraft is owner:
            self._overdraft = None
        self._wake()

    def may_read(self, owner: Holder, resume: Callable[[], None]) -> bool:
        """Whether `owner` may read on. If not, it is to pause, and `resume` is called when there is room."""
        if not self.exhausted or self._overdraft is owner or self._held.get(owner, 0) < self._share:
            return True
        if self._overdraft is None:
            self._overdraft, self._overdraft_progress = owner, 0
            return True
        self._waiting[owner] = resume
        self._watch()
        return False

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._later(OVERDRAFT_S, self._look)

    def _look(self) -> None:
        """Have the overdraft passed on by one who makes nothing of it, as long as somebody waits."""
        self._watching = False
        if not self._waiting:
            return
        if self._overdraft_progress < OVERDRAFT_BYTES:
            self._overdraft = None
            self._wake()
        self._overdraft_progress = 0
        if self._waiting:
            self._watch()

    @property
    def _share(self) -> int:
        return self.limit_bytes // max(1, len(self._held))

    def _wake(self) -> None:
        """Somebody may go on: all of them, or the first, who asks again."""
        if not self._waiting:
            return
        if not self.exhausted:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting.values():
                resume()
            return
        owner = next(iter(self._waiting))
        if self._overdraft is None or self._held.get(owner, 0) < self._share:
            self._waiting.pop(owner)()


class AnswerBudget:
    """Bytes of answers that wait for clients to take them."""

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._held: dict[Holder, int] = {}
        """The connection that took nothing for longest comes first."""

    def count(self, owner: Holder, size_bytes: int) -> None:
        """`owner` has this much to take now. Less than before is progress."""
        before = self._held.get(owner, 0)
        self.held_bytes += size_bytes - before
        if size_bytes < before:
            del self._held[owner]
        if size_bytes:
            self._held[owner] = size_bytes
        while self.held_bytes > self.limit_bytes and len(self._held) > 1:
            victim = next(iter(self._held))
            self.leave(victim)
            victim.expire("it does not take its answers, and the memory for answers is used up")

    def leave(self, owner: Holder) -> None:
        """It is gone, and its answers with it."""
        self.held_bytes -= self._held.pop(owner, 0)

    def fetch_limit(self, wanted_bytes: int) -> int:
        """How much a fetch may answer now: what it wants while there is room, one batch (1 byte) when there is none."""
        return max(1, min(wanted_bytes, self.limit_bytes - self.held_bytes))
