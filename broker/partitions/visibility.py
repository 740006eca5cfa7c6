"""What readers may see: the high watermark, and the callers that wait for it to move.

The high watermark is what a power cut cannot take back (or, in page-cache mode, what has been published). It is moved
by one call of the group-commit cycle and never by an append, and never goes back.
"""

import asyncio
import heapq
from collections.abc import Callable
from functools import partial

Watcher = Callable[[], None]
Callback = Callable[[Exception | None], None]
"""Called once: with None, or with why it will not be committed. Begins nothing else."""


class Visibility:
    """The high watermark of one partition, its watchers, and the futures of appends that wait to be committed."""

    def __init__(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self._watchers: dict[Watcher, None] = {}
        self._waiting: list[tuple[int, int, Callback]] = []
        self._tickets = 0

    def committed(self, offset: int) -> "asyncio.Future[None] | None":
        """None where everything below `offset` is committed; else a future that ends when it is."""
        if offset <= self.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_committed(offset, partial(_settle, future))
        return future

    def when_committed(self, offset: int, callback: Callback) -> None:
        """The same for callers that need no future; not everything below `offset` is committed yet."""
        self._tickets += 1
        heapq.heappush(self._waiting, (offset, self._tickets, callback))

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """No error where it does not watch (any more)."""
        self._watchers.pop(watcher, None)

    def advance(self, high_watermark: int) -> None:
        """Publish a new high watermark."""
        assert high_watermark >= self.high_watermark, "the high watermark never goes back"
        self.high_watermark = high_watermark

    def wake(self) -> None:
        """Something a reader can see has changed: wake the callers that wait for their own append, then the watchers.

        A watcher may unwatch itself or others meanwhile.
        """
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.high_watermark:
            heapq.heappop(waiting)[2](None)
        for watcher in list(self._watchers):
            if watcher in self._watchers:
                watcher()

    def fail(self, error: Exception) -> None:
        """Nothing more will be committed: waiting callers get the error."""
        waiting, self._waiting = self._waiting, []
        for _, _, callback in waiting:
            callback(error)


def _settle(future: "asyncio.Future[None]", error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
