"""A node that follows the log of another, for tests of what it reads of it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

from broker.config.topic_config import TopicConfig
from broker.coordination.across_nodes import followed_partitions
from broker.coordination.across_nodes.followed_partitions import FollowedPartitions
from broker.partitions.followed_partition import FollowedPartition
from broker.process.environment import MonotonicMs, RealEnvironment
from broker.shared.bringing import Brought
from broker.shared.partitions import SharedPartitions
from storage.segments.stamping import stamp
from storage.shared.read_memory import ReadMemory
from storage.shared.replacement import runs_of
from storage.shared.store import FoundLog, Incarnation, LogChange, OwnedLog, StoredRun, StoreUnreachable
from tests.unit.across_nodes.rig import ME, OTHER, SlowStore

TOPIC_ID = bytes(15) + b"t"
SILENT_MS = 60_000
PATIENCE_S = 60.0


class Environment(RealEnvironment):
    """Its clock is set by hand; waits are real."""

    now_ms = 1_000

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self.now_ms)


class Store(SlowStore):
    """What it answers is of the moment in which it answers."""

    is_rewritten = False
    """What was looked at is another's to take away."""

    def __init__(self) -> None:
        super().__init__()
        self.read_for_readers: list[int] = []

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        return [] if self.is_rewritten else await super().runs(log_id, offset, limit)

    def damage(self, number: int) -> None:
        """The first batch of an object lies elsewhere by now."""
        held = list(self._objects.values())[number]
        assert held is not None
        held.data = (77).to_bytes(8, "big") + held.data[8:]

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        self.read_for_readers += [one.run.base_offset for one in runs if for_reader]
        return await super().read(runs)

    async def look(self, who: Incarnation, topic_id: bytes, index: int, *, with_kept: bool) -> FoundLog | None:
        self.looks += 1
        await self.answers.wait()
        if self.is_away:
            raise StoreUnreachable("away")
        return await super().look(who, topic_id, index, with_kept=with_kept)


class World:
    """The log of another node, which commits what a test says, and this one, which follows."""

    def __init__(self) -> None:
        self.store, self.environment = Store(), Environment(None)
        self.leader = OTHER
        self.topic: Any = SimpleNamespace(name="t", topic_id=TOPIC_ID, config=TopicConfig())
        self.tasks: list[asyncio.Task[None]] = []
        self.silent_ms = SILENT_MS
        self.expiration_ms = 1 << 40
        self._objects = 0

    async def begin(self) -> "World":
        self._other = await self.store.join(OTHER, b"")
        self._log: OwnedLog = await self.store.claim(self._other, TOPIC_ID, 0, 0)
        self.end = 0
        who = await self.store.join(ME, b"")
        memory = ReadMemory(1 << 20, 1 << 20)
        nodes: Any = SimpleNamespace(
            leads=lambda topic_id, index: self.leader == ME, epoch=lambda topic_id, index: 7, node_id=ME
        )

        def make(**known: Any) -> FollowedPartition:
            return FollowedPartition(
                now_ms=lambda: 0,
                producer_expiration_ms=lambda: self.expiration_ms,
                on_written=lambda _: None,
                durable_appends=True,
                **known,
            )

        self.partitions = SharedPartitions(
            self.store, who, self.environment, memory, own=self._own, read_ahead_bytes=1 << 20
        )
        self.followed = FollowedPartitions(
            nodes,
            self.partitions,
            self.environment,
            lambda topic_id: self.topic if topic_id == TOPIC_ID else None,
            make=make,
            silent_ms=lambda: self.silent_ms,
            own=self._own,
        )
        return self

    def _own(self, work: Any) -> "asyncio.Task[None]":
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def commit(self, *batches: bytes, start_offset: int | None = None) -> None:
        pieces, placed = stamp(b"".join(batches), self.end, 0)
        end = placed[-1].last_offset + 1 if placed else self.end
        joined = [b"".join(pieces[number : number + 2]) for number in range(0, len(pieces), 2)]
        runs = runs_of(self.end, end, joined, placed) if placed else ()
        self._objects += 1
        change = LogChange(self._log.log_id, 0, self.end, runs, start_offset)
        assert not await self.store.commit(self._other, self._other.number << 32 | self._objects, pieces, [change])
        self.end = end

    def ask(self, offset: int = 0, since: int | None = None) -> FollowedPartition | Brought:
        return self.followed.partition(self.topic, 0, offset, self.followed.looks if since is None else since)

    async def read_at(self, offset: int) -> FollowedPartition:
        """As a fetch does. Raises `OSError`."""
        since = self.followed.looks
        while isinstance(found := self.ask(offset, since), Brought):
            async with asyncio.timeout(PATIENCE_S):
                await found
        return found

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not happened():
                await asyncio.sleep(0.001)


def told(story: Callable[[World], Awaitable[None]], *, look_s: float = 0.001) -> None:
    """What is followed is looked at again after so long."""

    async def tell() -> None:
        world = await World().begin()
        await story(world)
        for task in world.tasks:
            task.cancel()
        await asyncio.gather(*world.tasks, return_exceptions=True)
        assert not len(world.followed)

    with mock.patch.object(followed_partitions, "LOOK_S", look_s):
        asyncio.run(tell())
