"""Commits where bytes are kept apart: what waits for the bucket, and what does not."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.shared import commits as commits_module
from broker.shared.bringing import tail_of
from broker.shared.commits import SharedCommits
from protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.schema import Buffer
from storage.log import LogConfig
from storage.shared.beside import Beside
from storage.shared.kept_files import KeptFiles
from storage.shared.memory_store import StoreInMemory
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import Incarnation, LogChange, StoreUnreachable, Upload
from storage.stretch import stretch_of
from tests.unit.storage.batches import batch

FOR_EVER_MS = 3_600_000


class Gated(StoreInMemory):
    """Uploads wait for a gate; what was asked is noted."""

    def __init__(self) -> None:
        super().__init__(lambda: 0, keeps_apart=True)
        self.gate = asyncio.Event()
        self.begun: list[int] = []
        self.objects: list[tuple[int, bool]] = []
        """Committed, with whether the bytes were brought before."""
        self.failures = 0

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        self.begun.append(upload_id)
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise StoreUnreachable("the bucket does not answer")
        return await super().upload(who, upload_id, data)

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        self.objects.append((object_id, isinstance(data, Upload)))
        return await super().commit(who, object_id, data, changes)


class Slice:
    """Nobody else wants a turn."""

    def spent(self) -> bool:
        return False


class World:
    """What the commits use of an environment."""

    now_ms = 0

    def time_slice(self) -> Slice:
        return Slice()

    def monotonic_ms(self) -> int:
        return self.now_ms


class OfOne:
    """A partition, as far as commits know it."""

    def __init__(self, topic: str, log: SharedLog) -> None:
        self.topic, self.log, self.discarded = topic, log, False
        self.name = f"{topic}-0"

    def committed_moved(self) -> None:
        """The log says it."""

    def became_readable(self) -> None:
        """Nobody reads it."""


class Scene:
    def __init__(self, linger_ms: int) -> None:
        self.store = Gated()
        self.failures: list[BaseException] = []
        self.memory = ReadMemory(1 << 20, 1 << 30)
        self.world = World()
        self.commits = SharedCommits(
            self.store, cast(Environment, self.world), on_failure=self.failures.append, linger_ms=linger_ms
        )

    async def begin(self) -> None:
        self.who = await self.store.join(1, b"")
        self.commits.begin(self.who, self.memory, 0, 1_000)

    async def partition(self, topic: str) -> OfOne:
        owned = await self.store.claim(self.who, topic.encode().ljust(16)[:16], 0, None)
        beside = Beside(KeptFiles.from_bytes(owned.kept), owned.first_offset, 0)
        tail = await tail_of(self.store, owned, 0, topic)
        log = SharedLog(topic, owned, beside, tail, LogConfig(), memory=self.memory, now_ms=lambda: 0)
        return OfOne(topic, log)

    def write(self, partition: OfOne, size_bytes: int = 10) -> int:
        """Where the log ends then."""
        partition.log.append(batch(1, value=b"v" * size_bytes), leader_epoch=0)
        self.commits.wrote(cast(Partition, partition))
        return partition.log.end_offset


def tell(story: Callable[[Scene], Awaitable[None]], linger_ms: int = 0) -> None:
    async def told() -> None:
        scene = Scene(linger_ms)
        await scene.begin()
        try:
            async with asyncio.timeout(60):
                await story(scene)
            assert scene.failures == []
        finally:
            scene.commits.abandon()

    asyncio.run(told())


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0)


async def some_turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_coordinators_do_not_wait_for_the_bucket(topic: str) -> None:
    async def story(scene: Scene) -> None:
        data, internal = await scene.partition("t"), await scene.partition(topic)
        scene.write(data)
        await until(lambda: len(scene.store.begun) == 1)
        end = scene.write(internal)
        await until(lambda: internal.log.durable_offset == end)
        await some_turns()
        assert data.log.durable_offset == 0
        scene.store.gate.set()
        await until(lambda: data.log.durable_offset == data.log.end_offset)
        ids = [object_id for object_id, _ in scene.store.objects]
        assert [apart for _, apart in scene.store.objects] == [False, True]
        assert ids == sorted(ids), "objects are called in the order of their commits"

    tell(story)


def test_a_log_is_in_one_cycle_at_a_time() -> None:
    async def story(scene: Scene) -> None:
        data = await scene.partition("t")
        first = scene.write(data)
        await until(lambda: len(scene.store.begun) == 1)
        scene.write(data)
        await some_turns()
        assert len(scene.store.begun) == 1
        scene.store.gate.set()
        await until(lambda: data.log.durable_offset == data.log.end_offset)
        runs = await scene.store.runs(data.log.owned.log_id, 0, 10)
        assert [(one.run.base_offset, one.run.last_offset) for one in runs] == [(0, first - 1), (first, first)]

    tell(story)


def test_what_does_not_come_is_brought_again_under_another_name() -> None:
    async def story(scene: Scene) -> None:
        data = await scene.partition("t")
        scene.store.failures = 2
        scene.store.gate.set()
        scene.write(data)
        await until(lambda: data.log.durable_offset == 1)
        assert len(set(scene.store.begun)) == len(scene.store.begun) == 3

    tell(story)


def test_who_watches_sees_what_waits_for_the_bucket_and_since_when() -> None:
    async def story(scene: Scene) -> None:
        commits, data = scene.commits, await scene.partition("t")
        scene.write(data)
        await until(lambda: len(scene.store.begun) == 1)
        scene.world.now_ms = 4_999
        assert (commits.held_up(), commits.uploads.oldest_ms, commits.silent_ms) == (None, 4_999, 4_999)
        scene.world.now_ms = 7_000
        assert commits.held_up() == "records have been waiting for 7 s to be brought where objects lie"
        assert commits.pending_bytes == data.log.size_bytes > 0
        scene.store.failures = 2
        scene.store.gate.set()
        await until(lambda: data.log.durable_offset == 1)
        assert (commits.held_up(), commits.uploads.oldest_ms, commits.pending_bytes) == (None, 0, 0)
        uploads = commits.uploads
        assert (uploads.brought, uploads.brought_bytes, uploads.failed) == (1, data.log.size_bytes, 2)

    tell(story)


def test_records_wait_for_others_but_not_where_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "UPLOAD_BYTES", 5_000)

    async def story(scene: Scene) -> None:
        scene.store.gate.set()
        data, internal = await scene.partition("t"), await scene.partition(CONSUMER_OFFSETS)
        scene.write(data)
        scene.write(internal)
        await until(lambda: internal.log.durable_offset == 1)
        await some_turns()
        assert scene.store.begun == []
        scene.write(data, 6_000)
        await until(lambda: data.log.durable_offset == 2)
        assert len(scene.store.begun) == 1, "both in one object"

    tell(story, FOR_EVER_MS)


def test_more_than_an_object_takes_is_brought_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "UPLOAD_BYTES", 1_000)

    async def story(scene: Scene) -> None:
        partitions = [await scene.partition(f"t{number}") for number in range(6)]
        for one in partitions:
            scene.write(one, 2_000)
        await until(lambda: len(scene.store.begun) == commits_module.UPLOADS_AT_ONCE)
        await some_turns()
        assert len(scene.store.begun) == commits_module.UPLOADS_AT_ONCE
        scene.store.gate.set()
        await scene.commits.wait_until_idle()
        assert [one.log.durable_offset for one in partitions] == [1] * 6

    tell(story, FOR_EVER_MS)


def test_what_has_no_bytes_goes_without_the_bucket() -> None:
    async def story(scene: Scene) -> None:
        data = await scene.partition("t")
        scene.store.gate.set()
        scene.write(data)
        await until(lambda: data.log.durable_offset == 1)
        scene.store.gate.clear()
        data.log.trim(1)
        scene.commits.wrote(cast(Any, data))
        await scene.commits.wait_until_idle()
        found = await scene.store.claim(scene.who, b"t".ljust(16), 0, 0)
        assert found.start_offset == 1

    tell(story)


def test_an_end_commits_both_kinds() -> None:
    async def story(scene: Scene) -> None:
        scene.store.gate.set()
        partitions = [await scene.partition(topic) for topic in ("t", CONSUMER_OFFSETS)]
        for one in partitions:
            scene.write(one)
        await scene.commits.wait_until_idle()
        for one in partitions:
            one.log.roll()
        await scene.commits.close(cast(Any, partitions))
        for one in partitions:
            found = await scene.store.look(scene.who, one.topic.encode().ljust(16)[:16], 0, with_kept=True)
            assert found is not None and found.log.kept

    tell(story)


def test_what_is_in_memory_is_told_apart_from_what_is_ahead_of_readers() -> None:
    async def story(scene: Scene) -> None:
        assert scene.commits.read_bytes == (0, 0)
        scene.store.gate.set()
        partition = await scene.partition("t")
        scene.write(partition)
        pending = scene.commits.pending_bytes
        scene.memory.ahead_bytes = 7
        assert pending > 0
        assert scene.commits.read_bytes == (0, 7), "what waits is not held to be read"
        await scene.commits.wait_until_idle()
        assert scene.commits.read_bytes == (pending, 7)
        stretch = stretch_of([batch(1)])
        scene.memory.brought(partition.log, stretch)
        assert scene.commits.read_bytes == (pending + stretch.size_bytes, 7)
        scene.memory.gone(stretch)
        await scene.commits.close(cast(Any, [partition]))

    tell(story)
