"""What waits for a commit, in lanes that do not wait for each other.

Rule 1. A log is of one lane, and in one cycle of it at a time: what was appended to it is committed in that order.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

from broker.partitions.partition import Partition
from storage.shared.flush import SharedFlush
from storage.shared.shared_log import SharedLog

Begun: TypeAlias = list[tuple[Partition, SharedFlush]]


class Lane:
    """Partitions of which one cycle after the other takes what is to be committed, `most_bytes` of it and no log
    divided. While there is more of others, `at_once` cycles go on beside each other. A cycle waits for `linger_s`
    before it begins, so that it has more to take, but not where `most_bytes` are waiting."""

    def __init__(
        self,
        most_bytes: int,
        at_once: int,
        run: Callable[[Begun], Awaitable[None]],
        on_end: Callable[[Exception | None], None],
        *,
        linger_s: float = 0.0,
        waiting_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`on_end` is called when a cycle has ended, with what it has failed with; `waiting_bytes` says how much waits,
        about."""
        self.dirty: dict[Partition, None] = {}
        self.cycles: dict[int, asyncio.Task[None]] = {}
        """Those that go on, in the order in which they began."""
        self._begun = 0
        self._most_bytes = most_bytes
        self._at_once = at_once
        self._run = run
        self._on_end = on_end
        self._linger_s = linger_s
        self._waiting_bytes = waiting_bytes
        self._enough = asyncio.Event()

    def wrote(self, partition: Partition) -> None:
        """It has something to commit."""
        self.dirty[partition] = None
        if not self.cycles:
            self._start()
        elif self._linger_s and self._waiting_bytes() >= self._most_bytes:
            self._enough.set()

    def _start(self) -> None:
        self._begun += 1
        self.cycles[self._begun] = asyncio.get_running_loop().create_task(self._cycle(self._begun))

    async def _cycle(self, number: int) -> None:
        failed: Exception | None = None
        try:
            while self.dirty:
                await self._linger()
                begun = self.begin(iter(list(self.dirty)), closing=False)
                if not begun:
                    return
                if len(self.cycles) < self._at_once and any(not one.log.is_flushing for one in self.dirty):
                    self._start()
                await self._run(begun)
        except Exception as error:  # noqa: BLE001  whoever made the lane is told
            failed = error
        finally:
            del self.cycles[number]
            self._on_end(failed)

    async def _linger(self) -> None:
        self._enough.clear()
        if self._linger_s and self._waiting_bytes() < self._most_bytes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    await self._enough.wait()

    def begin(self, rest: Iterator[Partition], *, closing: bool) -> Begun:
        """What the next commit takes of these; nothing where none has anything to commit."""
        begun: Begun = []
        size_bytes = 0
        while size_bytes < self._most_bytes and (partition := next(rest, None)) is not None:
            log = partition.log
            assert isinstance(log, SharedLog), "in a shared store all logs are"
            if log.is_flushing:
                continue  # That cycle looks again when it has ended.
            self.dirty.pop(partition, None)
            if not partition.discarded and (flush := log.begin_flush(closing=closing)) is not None:
                begun.append((partition, flush))
                size_bytes += flush.size_bytes + flush.replaced_bytes
        return begun

    def abandon(self) -> None:
        """Nothing more is committed."""
        for task in self.cycles.values():
            task.cancel()
