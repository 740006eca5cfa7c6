"""A node that reads logs of a store, a stretch at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any
from unittest import mock

from broker.process.time_slice import TimeSlice
from broker.shared.bringing import LogSource, tail_of
from broker.shared.reading import ahead
from broker.shared.reading.ahead import ReadingAhead
from storage.log import LogConfig
from storage.shared.beside import Beside
from storage.shared.kept_files import KeptFiles
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import StoredRun, moved
from tests.unit.across_nodes.rig import SlowStore, turns
from tests.unit.storage.batches import batch

PIECE = batch(1, value=b"v" * 100)
SIZE = len(PIECE)
"""Of a stretch here: a commit makes one run of it."""
MANY = 1 << 30


class Store(SlowStore):
    """Tells what was read, by offset, and what was looked for, by log and offset, which `cannot_look`. `fails` says for
    a run whether it cannot be had, or was removed; `holds` whether it waits for `answers`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.looked: list[tuple[int, int]] = []
        self.cannot_look: Exception | None = None
        self.fails: Callable[[int], Exception | None] = lambda offset: None
        self.holds: Callable[[int], bool] = lambda offset: True
        self.under_way = self.most_under_way = 0

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        self.looked.append((log_id, offset))
        if self.cannot_look is not None:
            raise self.cannot_look
        return await super().runs(log_id, offset, limit)

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        self.asked += [one.run.base_offset for one in runs]
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if any(self.holds(one.run.base_offset) for one in runs):
            await self.answers.wait()
        self.under_way -= 1
        for one in runs:
            if (error := self.fails(one.run.base_offset)) is not None:
                raise error
        return await super().read(runs)

    def damage(self, offset: int) -> None:
        """Of the run of an only log, one for each offset."""
        held: Any = self._objects[list(self._objects)[offset]]
        held.data = held.data[:-1] + b"w"


class World:
    """Some logs of a node, each written a commit for each batch, and no longer in memory but for the last one."""

    def __init__(self, limit_bytes: int) -> None:
        self.store = Store()
        self.memory = ReadMemory(1, MANY)
        self.node = ReadingAhead(self.store, self.memory, limit_bytes, self._own, lambda: TimeSlice(self.clock))
        self.clock: Callable[[], float] = lambda: 0.0
        self.tasks: list[asyncio.Task[None]] = []
        self.logs: list[SharedLog] = []
        self.most_held = 0
        self._commits = 0

    def _own(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def log(self, batches: int = 0) -> SharedLog:
        if not self.logs:
            self.who = await self.store.join(1, b"")
        owned = await self.store.claim(self.who, bytes(16), len(self.logs), None)
        kept = Beside(KeptFiles(), owned.first_offset, 0)
        tail = await tail_of(self.store, owned, 0, "t")
        log = SharedLog("t", owned, kept, tail, LogConfig(), memory=self.memory, now_ms=lambda: 0)
        log.source = LogSource(log, self.node)
        self.logs.append(log)
        for _ in range(batches):
            await self.append(log)
        return log

    async def append(self, log: SharedLog, data: bytes = PIECE) -> None:
        log.append(data, leader_epoch=0)
        await self.commit(log)

    async def commit(self, log: SharedLog) -> None:
        flush = log.begin_flush()
        assert flush is not None
        self._commits += 1
        object_id = self.who.number << 32 | self._commits
        assert not await self.store.commit(self.who, object_id, flush.batches, [moved(flush.change, 0)])
        log.finish_flush(flush)

    async def read(self, log: SharedLog, offset: int, count: int = 1) -> int:
        """So many stretches, as a fetch does; returns where it would go on. Raises `LogDamaged`, `OSError`."""
        for _ in range(count):
            while not (found := log.read_slice(offset, 1, end_offset=log.durable_offset)).batches:
                away = log.away(offset)
                if away is not None:
                    await away
            assert offset < found.next_offset
            offset = found.next_offset
            self.look()
        return offset

    async def settle(self) -> None:
        """Until all that is to be brought has come."""
        await turns()
        self.look()

    def pass_time(self) -> None:
        """So long that who has not asked until now, and does not, has gone."""
        loop, timer = asyncio.get_running_loop(), self.node._timer
        assert timer is not None
        timer.cancel()
        now_s = loop.time() + ahead.IDLE_S
        with mock.patch.object(loop, "time", lambda: now_s):
            self.node._look()

    def look(self) -> None:
        self.most_held = max(self.most_held, self.node.held_bytes)
        assert self.node.held_bytes <= self.node.limit_bytes

    def close(self) -> None:
        for log in self.logs:
            log.abandon()


def told(story: Callable[[World], Awaitable[None]], limit_bytes: int = MANY) -> None:
    """Nothing is held when it is over, nothing counts, and no timer runs."""

    async def tell() -> None:
        world = World(limit_bytes)
        await story(world)
        world.close()
        world.store.answers.set()
        await asyncio.gather(*world.tasks, return_exceptions=True)
        assert (world.node.held_bytes, world.memory.pending_bytes, world.memory._brought_bytes) == (0, 0, 0)
        assert not world.node._readers and world.node._timer is None
        errors = [task.exception() for task in world.tasks if not task.cancelled()]
        assert errors == [None] * len(errors)

    with mock.patch.object(ahead, "STRETCH_BYTES", SIZE):
        asyncio.run(tell())
