"""One budget for the bytes that clients make the broker hold, and who waits when it is used up.

Rule 1. Requests count as their bytes arrive, not as a client announces them: a lie about a length costs nothing.
Rule 2. While the budget is used up, connections stop reading. So that half-received requests cannot wait for
each other for ever, one connection at a time may go on (the overdraft) until its requests are dealt with.
Rule 3. Answers that a slow reader has not taken count apart: they make further fetch answers small, but stop
nobody else from being read.
"""

from collections.abc import Callable


class MemoryBudget:
    """Bytes of requests held, with a queue of those who wait for room."""

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: dict[object, Callable[[], None]] = {}
        self._overdraft: object | None = None

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def take(self, size_bytes: int) -> None:
        """Count bytes that are already here; never refuses."""
        self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        assert size_bytes <= self.used_bytes
        self.used_bytes -= size_bytes
        if self._waiting and not self.exhausted:
            self._wake_all()

    def may_read(self, owner: object, resume: Callable[[], None]) -> bool:
        """Whether `owner` may read on. If not, it is to pause, and `resume` is called when there is room."""
        if not self.exhausted or self._overdraft is owner:
            return True
        if self._overdraft is None:
            self._overdraft = owner
            return True
        self._waiting[owner] = resume
        return False

    def done_reading(self, owner: object) -> None:
        """`owner` holds nothing any more, or is gone: it needs neither overdraft nor a place in the queue."""
        self._waiting.pop(owner, None)
        if self._overdraft is owner:
            self._overdraft = None
            if self._waiting:
                self._wake_first()

    def _wake_first(self) -> None:
        owner = next(iter(self._waiting))
        resume = self._waiting.pop(owner)
        if self.exhausted:
            self._overdraft = owner
        resume()

    def _wake_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume in waiting.values():
            resume()


class AnswerBudget:
    """Bytes of answers that wait in the sockets of slow readers. Not a gate: fetches ask how much they may add."""

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        assert size_bytes <= self.held_bytes
        self.held_bytes -= size_bytes

    def fetch_limit(self, wanted_bytes: int) -> int:
        """How much a fetch may answer now: what it wants while there is room, one batch (1 byte) when there is none."""
        return max(1, min(wanted_bytes, self.limit_bytes - self.held_bytes))
