"""What a node reads of partitions that others lead: how long it follows one, what it shows, when it gives one up."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.topic_config import TopicConfig
from broker.coordination.across_nodes import followed_partitions as module
from broker.coordination.across_nodes.followed_partitions import (
    EXPIRED_EACH_MS,
    IDLE_MS,
    WATCHED_MS,
    FollowedPartitions,
)
from broker.partitions.followed_partition import FollowedPartition
from broker.process.environment import MonotonicMs, RealEnvironment
from broker.shared import bringing
from broker.shared import partitions as shared_partitions
from broker.shared.bringing import Brought
from broker.shared.partitions import SharedPartitions
from protocol.records.control import end_transaction_marker
from storage.log import LogDamaged
from storage.segments.stamping import stamp
from storage.shared.read_memory import ReadMemory
from storage.shared.replacement import runs_of
from storage.shared.store import FoundLog, Incarnation, LogChange, OwnedLog, StoredRun, StoreUnreachable
from tests.unit.across_nodes.rig import ME, OTHER, SlowStore
from tests.unit.partition.rig import in_transaction
from tests.unit.storage.batches import batch

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


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def tell() -> None:
        world = await World().begin()
        await story(world)
        for task in world.tasks:
            task.cancel()
        await asyncio.gather(*world.tasks, return_exceptions=True)
        assert not len(world.followed)

    asyncio.run(tell())


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.001)


def test_what_is_committed_later_comes_by_itself() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1))
        partition = await world.read_at(0)
        assert (partition.high_watermark, partition.leader_epoch) == (1, 7)
        moved: list[int] = []
        partition.watch(lambda: moved.append(partition.high_watermark))
        await world.commit(batch(1, 2))
        await world.until(lambda: bool(moved))
        assert moved[-1] == 3 and await world.read_at(0) is partition

    told(story)


def test_who_has_seen_more_waits_for_a_look_that_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", PATIENCE_S)

    async def story(world: World) -> None:
        await world.commit(batch(1))
        assert (await world.read_at(0)).end_offset == 1
        await world.commit(batch(1))
        assert (await world.read_at(1)).end_offset == 1, "that is its end, and nobody has seen more"
        assert (await world.read_at(2)).end_offset == 2
        looks = world.store.looks
        assert (await world.read_at(7)).end_offset == 2, "it is not there: to be refused"
        assert world.store.looks == looks + 1

    told(story)


def test_a_long_backlog_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_partitions, "ENOUGH_BYTES", 1)
    monkeypatch.setattr(bringing, "STRETCH_BYTES", 1)
    monkeypatch.setattr(module, "TAKEN_AT_ONCE", 1)

    async def story(world: World) -> None:
        partition = await world.read_at(0)
        for _ in range(5):
            await world.commit(batch(1), batch(1))
        looks = world.store.looks
        assert (await world.read_at(10)) is partition and partition.end_offset == 10
        assert world.store.looks >= looks + 5, "each of them brought one object"

    told(story)


def test_transactions_are_undecided_until_their_marker_is_seen() -> None:
    async def story(world: World) -> None:
        await world.commit(in_transaction(9, 0, 0))
        partition = await world.read_at(0)
        assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
        await world.commit(
            end_transaction_marker(producer_id=9, producer_epoch=0, commit=False, coordinator_epoch=0, timestamp_ms=1)
        )
        partition = await world.read_at(2)
        assert partition.last_stable_offset == 2
        found = partition.read(0, 1 << 20, read_committed=True)
        assert [(one.producer_id, one.first_offset) for one in found.aborted or []] == [(9, 0)]

    told(story)


def test_what_begins_later_begins_later_here() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1), batch(1))
        partition = await world.read_at(0)
        await world.commit(start_offset=1)
        await world.until(lambda: partition.log_start_offset == 1)

    told(story)


def test_a_log_that_is_written_anew_while_it_is_read_is_opened_again() -> None:
    """Compaction of its owner, or retention: nothing is damaged, and no reader is told so."""

    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.store.is_rewritten = True
        await world.commit(batch(1))
        with pytest.raises(OSError, match="was written anew while it was read"):
            await world.read_at(1)
        assert partition.discarded
        world.store.is_rewritten = False
        assert (await world.read_at(1)).end_offset == 1

    told(story)


def test_what_is_away_is_brought_and_where_it_is_gone_nothing_is_damaged() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1))
        await world.commit(batch(1))
        partition = await world.read_at(0)
        partition.shared._here.shrink(2)  # As others have taken its place in memory.
        away = partition.log.away(0)
        assert away is not None and partition.read(0, 1 << 20, read_committed=False).records == []
        await away
        assert partition.read(0, 1 << 20, read_committed=False).records
        partition.shared._here.forget_before(2)
        world.store.is_rewritten = True
        away = partition.log.away(0)
        assert away is not None
        with pytest.raises(OSError, match="the store has no run there"):
            await away
        assert partition.read(0, 1 << 20, read_committed=False).records == [], "it is asked for again"

    told(story)


def test_a_batch_that_lies_elsewhere_is_not_passed_over_here_either() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1), batch(1))
        partition = await world.read_at(0)
        world.store.damage(0)
        partition.shared._here.forget_before(2)
        await partition.shared.ask_for(0)
        with pytest.raises(LogDamaged, match="t-0 is damaged at offset 0: a batch is not in its place"):
            partition.read(0, 1 << 20, read_committed=False)
        await world.commit(batch(1), batch(1))
        world.store.damage(1)
        with pytest.raises(OSError, match="t-0 is damaged at offset 2"):
            await world.read_at(4)
        assert partition.discarded

    told(story)


def test_producers_that_are_silent_for_long_are_forgotten_here_too() -> None:
    async def story(world: World) -> None:
        await world.commit(in_transaction(9, 0, 0))
        await world.commit(
            end_transaction_marker(producer_id=9, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=1)
        )
        partition = await world.read_at(2)
        assert len(partition.derived.producers) == 1
        world.expiration_ms = 1
        partition.watch(lambda: None)
        world.environment.now_ms += EXPIRED_EACH_MS + 1
        await world.until(lambda: not len(partition.derived.producers))

    told(story)


def test_it_is_followed_for_as_long_as_somebody_reads() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.environment.now_ms += IDLE_MS
        looks = world.store.looks
        await world.until(lambda: world.store.looks > looks + 1)
        assert len(world.followed) == 1
        watcher = lambda: None  # noqa: E731
        partition.watch(watcher)
        world.environment.now_ms += 1
        looks = world.store.looks
        await world.until(lambda: world.store.looks > looks + 1)
        assert len(world.followed) == 1, "a session has looked at it"
        partition.unwatch(watcher)
        await world.until(lambda: not len(world.followed))
        assert partition.discarded and (await world.read_at(0)) is not partition

    told(story)


def test_a_session_that_is_left_open_does_not_keep_it_for_good() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        woken: list[None] = []
        partition.watch(lambda: woken.append(None))
        world.environment.now_ms += WATCHED_MS + 1
        await world.until(lambda: not len(world.followed))
        assert woken, "who still reads looks again"

    told(story)


@pytest.mark.parametrize("what", ["leads", "deleted", "made again"])
def test_it_is_given_up_where_it_is_no_other_node_s_any_more(what: str) -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        partition.watch(lambda: None)
        if what == "leads":
            world.leader = ME
        elif what == "deleted":
            world.topic = None
        else:
            await world.store.forget(world._other, TOPIC_ID)
            await world.store.claim(world._other, TOPIC_ID, 0, 0)
        await world.until(lambda: partition.discarded)

    told(story)


def test_a_store_that_is_away_for_long_sends_readers_to_the_leader() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.store.is_away = True
        looks = world.store.looks
        await world.until(lambda: world.store.looks > looks + 2)
        assert await world.read_at(0) is partition, "not for a moment"
        with pytest.raises(OSError, match="away"):
            await world.read_at(1)
        world.environment.now_ms += SILENT_MS + 1
        await world.until(lambda: partition.discarded)
        with pytest.raises(OSError, match="is not followed"):
            await world.read_at(0)

    told(story)


def test_a_store_that_does_not_answer_is_one_that_is_away() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.silent_ms = 1
        world.store.answers.clear()
        await world.until(lambda: partition.discarded)

    told(story)


def test_a_first_look_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPENED_IN_S", 0.001)

    async def story(world: World) -> None:
        world.store.answers.clear()
        with pytest.raises(OSError, match="does not answer"):
            await world.read_at(0)

    told(story)


def test_many_are_not_opened_at_once() -> None:
    async def story(world: World) -> None:
        world.store.answers.clear()
        for index in range(50):
            world.followed.partition(world.topic, index, 0, 0)
        await world.until(lambda: world.store.looks >= module.OPENED_AT_ONCE)
        await asyncio.sleep(0)
        assert world.store.looks == module.OPENED_AT_ONCE

    told(story)
