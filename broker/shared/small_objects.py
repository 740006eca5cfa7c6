"""Objects that are small, brought whole and kept for a while: whoever takes over the logs of a node wants all that it
has brought last, one log after the other, and each object has something of most of them.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

WHOLE_BYTES = 256 << 10
KEPT_BYTES = 32 << 20


class SmallObjects:
    """`bring` gets one of them. Who waits for one that is on its way waits for the same."""

    def __init__(
        self, bring: Callable[[int, int, bool], Coroutine[Any, Any, bytes]], kept_bytes: int = KEPT_BYTES
    ) -> None:
        self._bring = bring
        self._left_bytes = kept_bytes
        self._kept: dict[int, tuple[asyncio.Future[bytes], int]] = {}
        """What was wanted last stands last."""

    async def whole(self, upload_id: int, size_bytes: int, for_reader: bool) -> bytes:
        """All of it, see `SharedStore.read`. Raises what `bring` raises, and asks again the next time."""
        found = self._kept.pop(upload_id, None)
        if found is None:
            task = asyncio.ensure_future(self._bring(upload_id, size_bytes, for_reader))
            task.add_done_callback(lambda done: self._brought(upload_id, done))
            found = task, size_bytes
            self._left_bytes -= size_bytes
        self._kept[upload_id] = found
        while self._left_bytes < 0 and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))
        return await asyncio.shield(found[0])

    def _brought(self, upload_id: int, done: "asyncio.Future[bytes]") -> None:
        failed = done.cancelled() or done.exception() is not None
        if failed and upload_id in self._kept and self._kept[upload_id][0] is done:
            self._forget(upload_id)

    def _forget(self, upload_id: int) -> None:
        _, size_bytes = self._kept.pop(upload_id)
        self._left_bytes += size_bytes
