"""How much of the logs of a shared store a node holds in memory to be read: what was committed last, and what was
brought from the store for a reader. Beyond the limits what is oldest goes. What is read ahead of readers has a limit of
its own (`broker.shared.reading.ahead`), and is counted here.
"""

from collections import deque
from typing import Protocol

from storage.stretch import Stretch

UNREAD_BYTES = 64 << 20
FEWEST = 64
"""Stretches that stay whatever the limit is: readers of the same partitions would take them from one another."""


class Holder(Protocol):
    """A log, as far as it is held in memory."""

    def shrink(self, end_offset: int) -> None:
        """Forget what lies before, as far as it was committed."""

    def forget(self, stretch: Stretch) -> None:
        """What was brought for a reader."""


class ReadMemory:
    """That of one node. `limit_bytes` holds for either half."""

    def __init__(self, limit_bytes: int, pending_limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pending_limit_bytes = pending_limit_bytes
        self.pending_bytes = 0
        """Appended and not committed: it cannot go."""
        self.ahead_bytes = 0
        """Brought, or on its way, for who has not asked for it yet."""
        self._committed: deque[tuple[Holder, int, int]] = deque()
        """(log, end offset, bytes), the oldest first."""
        self._committed_bytes = 0
        self._brought: dict[Stretch, Holder] = {}
        """What was read last stands last."""
        self._brought_bytes = 0
        self._unread: dict[Stretch, None] = {}
        """What was brought and not read yet: who asked for much would never have all of it, if one took the place of
        another. It stays until it was read, or comes to `UNREAD_BYTES` beyond the limit: whoever asked may be gone."""

    @property
    def is_full(self) -> bool:
        """Whether so much waits for its commit that nothing more is taken."""
        return self.pending_bytes >= self._pending_limit_bytes

    @property
    def held_bytes(self) -> int:
        """What was committed, or was brought for who asked for it."""
        return self._committed_bytes + self._brought_bytes

    def committed(self, log: Holder, end_offset: int, size_bytes: int) -> None:
        """So much of a log, up to an offset, waits no longer."""
        self.pending_bytes -= size_bytes
        self.tail(log, end_offset, size_bytes)

    def tail(self, log: Holder, end_offset: int, size_bytes: int) -> None:
        """So much of a log was committed, and is in memory, up to an offset."""
        self._committed.append((log, end_offset, size_bytes))
        self._committed_bytes += size_bytes
        while self._committed_bytes > self._limit_bytes and len(self._committed) > 1:
            oldest, oldest_end, oldest_bytes = self._committed.popleft()
            self._committed_bytes -= oldest_bytes
            oldest.shrink(oldest_end)

    def brought(self, log: Holder, stretch: Stretch) -> None:
        """A stretch came from the store."""
        self._brought[stretch] = log
        self._unread[stretch] = None
        self._brought_bytes += stretch.size_bytes
        while self._brought_bytes > self._limit_bytes and len(self._brought) > FEWEST:
            much = self._brought_bytes > self._limit_bytes + UNREAD_BYTES
            oldest = next((one for one in self._brought if much or one not in self._unread), stretch)
            if oldest is stretch:
                return
            self._brought[oldest].forget(oldest)
            self.gone(oldest)

    def used(self, stretch: Stretch) -> None:
        """It was read just now."""
        self._brought[stretch] = self._brought.pop(stretch)
        self._unread.pop(stretch, None)

    def gone(self, stretch: Stretch) -> None:
        """The log holds it no longer."""
        del self._brought[stretch]
        self._unread.pop(stretch, None)
        self._brought_bytes -= stretch.size_bytes
