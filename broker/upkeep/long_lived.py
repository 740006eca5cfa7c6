"""What stays is out of the collector's sight: what a start leaves behind, and logs once they are open.

A full collection stops all threads while it looks at every object there is: a tenth of a second and more where there
are thousands of logs. Frozen, they are not looked at. The logs of deleted topics are in no cycles: they are freed when
the last reference is gone, and need no collector.
"""

import asyncio
import gc

from broker.coordination.topics import TopicDirectory

FREEZE_S = 0.05
MANY = 256
"""Logs. Fewer than that more, and a collection does not take long."""


class LongLived:
    """See the head of this file."""

    def __init__(self, topics: TopicDirectory) -> None:
        self._topics = topics
        self._new = 0
        """Logs opened since the last time."""
        self._many = asyncio.Event()
        topics.to_open.on_opened.append(lambda *_: self._opened())

    async def keep_out_of_sight(self) -> None:
        """For as long as the node lives."""
        gc.freeze()
        while True:
            while self._topics.to_open.any_left:
                await asyncio.sleep(FREEZE_S)
                gc.freeze()
            await self._many.wait()
            self._many.clear()
            self._new = 0
            gc.freeze()

    def _opened(self) -> None:
        self._new += 1
        if self._new >= MANY:
            self._many.set()
