"""What goes wrong on the way to a bucket, and what is left of it: nothing is named that is not there, nothing that is
named is removed, and what nobody names goes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from broker.shared.objects_in_s3 import ObjectsInS3
from storage.shared.store import (
    CommitUnknown,
    Incarnation,
    LogChange,
    ObjectLost,
    ObjectMissing,
    OwnedLog,
    StoreUnreachable,
    Upload,
)
from tests.shared_store.engines import LONG_MS, TOPIC, appended, born, object_of, read_of, trimmed
from tests.shared_store.objects.line import Fault, Line
from tests.shared_store.objects.s3_server import Looking
from tests.shared_store.objects.shared_s3 import SharedS3
from tests.shared_store.postgresql_server import PostgresqlServer

DATA = [b"01234", b"56789"]
CLUSTER = "drawn"
SHORT_S = 0.3

Story = Callable[["Scene"], Awaitable[None]]


class Scene:
    """One node, which has a log, and somebody who looks at the bucket without the line."""

    def __init__(self, shared: SharedS3, line: Line) -> None:
        self.shared, self.line = shared, line
        self.looking = Looking(line.to, shared.schema)

    async def begin(self) -> None:
        await self.store.open()
        await self.store.cluster_id(None, CLUSTER)
        self.who: Incarnation = await born(self.store)
        self.log: OwnedLog = await self.store.claim(self.who, TOPIC, 0, None)

    @property
    def store(self) -> ObjectsInS3:
        return self.shared.objects

    async def bring(self, number: int) -> Upload:
        return await self.store.upload(self.who, object_of(self.who, number), DATA)

    async def commit(self, number: int, upload: Upload, change: LogChange | None = None) -> None:
        wanted = appended(self.log, 1, at=number) if change is None else change
        assert await self.store.commit(self.who, object_of(self.who, number), upload, [wanted]) == frozenset()

    @contextmanager
    def without_patience(self) -> Iterator[None]:
        """Who does not answer at once does not answer."""
        bucket = self.store._bucket
        patience_s, bucket._patience_s = bucket._patience_s, SHORT_S
        try:
            yield
        finally:
            bucket._patience_s = patience_s

    def name(self, number: int) -> str:
        return f"{CLUSTER}/{self.who.number:08x}/{number:08x}"

    def names(self) -> list[str]:
        return self.looking.names()


@pytest.fixture
def tell(line: Line, postgresql: PostgresqlServer, schema: str) -> Callable[..., None]:
    def tell(story: Story) -> None:
        async def told() -> None:
            shared = SharedS3(postgresql, schema, line.port, kind=ObjectsInS3)
            scene = Scene(shared, line)
            try:
                await scene.begin()
                await story(scene)
            finally:
                line.mend()
                await shared.close()

        asyncio.run(told())

    return tell


@contextmanager
def not_reached(because: str) -> Iterator[None]:
    with pytest.raises(StoreUnreachable, match=because):
        yield


def test_what_is_brought_lies_under_the_cluster_and_the_start(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        assert scene.names() == [scene.name(0)]
        assert scene.looking.bytes_of(scene.name(0)) == b"0123456789"
        assert scene.looking.bytes_of(f"{CLUSTER}/cluster") == f"{CLUSTER}\n".encode()
        assert scene.looking.bytes_of(f"{CLUSTER}/start").startswith(f"{scene.who.number:010d} ".encode())
        assert await read_of(scene.store, object_of(scene.who, 0), 3, 4) == b"3456"

    tell(story)


@pytest.mark.parametrize("fault", [one for one in Fault if one is not Fault.ANOTHER_WAS_FASTER])
def test_a_write_that_fails_is_tried_once_and_made_again_under_another_name(
    fault: Fault, tell: Callable[..., None]
) -> None:
    async def story(scene: Scene) -> None:
        line = scene.line
        line.spoil_next(fault, "PUT")
        before = line.asked["PUT"]
        with pytest.raises(StoreUnreachable), scene.without_patience():
            await scene.bring(0)
        assert line.asked["PUT"] == before + 1
        upload = await scene.bring(1)
        await scene.commit(0, upload)
        line.mend()
        if fault is Fault.LATE:
            await until(lambda: scene.name(0) in scene.names())
        left = [scene.name(0)] if fault in (Fault.ANSWER_LOST, Fault.LATE, Fault.UNANSWERED) else []
        assert scene.names() == [*left, scene.name(1)]
        await scene.store.collect(LONG_MS, 10)
        assert scene.names() == [scene.name(1)], "what this node has given up is gone, and nothing else is"
        assert await read_of(scene.store, object_of(scene.who, 0), 0, 10) == b"0123456789"

    tell(story)


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("size_bytes", "requests"), [(1_000, 1), (400_000, 3)])
def test_a_small_object_is_brought_once_and_of_a_large_one_what_is_wanted(
    size_bytes: int, requests: int, tell: Callable[..., None]
) -> None:
    async def story(scene: Scene) -> None:
        data = bytes(range(250)) * (size_bytes // 250)
        upload = await scene.store.upload(scene.who, object_of(scene.who, 0), [data])
        await scene.commit(0, upload)
        before = scene.line.asked["GET"]
        for position in (0, size_bytes // 2, size_bytes - 100):
            assert await read_of(scene.store, object_of(scene.who, 0), position, 100) == data[position : position + 100]
        assert scene.line.asked["GET"] == before + requests

    tell(story)


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.ANSWER_LOST])
def test_a_read_is_asked_again(fault: Fault, tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        scene.line.spoil_next(fault, "GET")
        assert await read_of(scene.store, object_of(scene.who, 0), 0, 10) == b"0123456789"
        assert len(scene.line.spoiled) == 1

    tell(story)


def test_a_bucket_that_says_nothing_is_not_waited_for_without_an_end(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        scene.line.spoil = lambda method, path: Fault.HANGS
        with scene.without_patience():
            with not_reached("does not answer"):
                await read_of(scene.store, object_of(scene.who, 0), 0, 10)
            with not_reached("does not answer"):
                await scene.bring(1)
            with not_reached("does not answer"):
                await scene.store.collect(LONG_MS, 10)
        await scene.store.heartbeat(scene.who)
        assert await scene.store.commit(scene.who, object_of(scene.who, 1), [b"along"], []) == frozenset()

    tell(story)


def test_a_bucket_that_is_away_comes_back(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        scene.line.cut()
        with scene.without_patience():
            with not_reached("s3://bucket"):
                await scene.bring(1)
            with not_reached("s3://bucket"):
                await read_of(scene.store, object_of(scene.who, 0), 0, 10)
        scene.line.open()
        await scene.commit(1, await scene.bring(2))
        assert await read_of(scene.store, object_of(scene.who, 0), 0, 10) == b"0123456789"
        assert await read_of(scene.store, object_of(scene.who, 1), 0, 10) == b"0123456789"

    tell(story)


def test_credentials_that_are_refused_later_may_be_taken_again(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        scene.line.spoil = lambda method, path: Fault.REFUSED
        with not_reached("s3://bucket/.* refuses these credentials: AccessDenied: Access Denied."):
            await scene.bring(0)
        scene.line.mend()
        await scene.commit(0, await scene.bring(1))

    tell(story)


def test_an_object_that_somebody_has_removed_is_lost_aloud(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        scene.looking.delete(scene.name(0))
        with pytest.raises(ObjectLost, match=f"object {object_of(scene.who, 0)}: .* is not there, and logs hold runs"):
            await read_of(scene.store, object_of(scene.who, 0), 0, 10)
        await scene.commit(1, await scene.bring(1), trimmed(scene.log, 1, 1))
        with pytest.raises(ObjectMissing, match=f"object {object_of(scene.who, 0)}"):
            await read_of(scene.store, object_of(scene.who, 0), 0, 10)

    tell(story)


@pytest.mark.parametrize("data", [b"", b"0123", b"01234567"])
def test_an_object_that_was_cut_is_lost_aloud(data: bytes, tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        scene.looking.put(scene.name(0), data)
        with pytest.raises(ObjectLost, match="is shorter than it was"):
            await read_of(scene.store, object_of(scene.who, 0), 5, 5)

    tell(story)


def test_who_dies_between_bringing_and_committing_leaves_nothing_for_long(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        await scene.bring(1)
        again = await scene.shared.another_node()
        assert await again.cluster_id(None, "other") == CLUSTER
        await born(again)
        await again.collect(LONG_MS, 10)
        assert len(scene.names()) == 2, "it was heard a moment ago: something of it may be on its way"
        await scene.shared.forward(LONG_MS)
        await again.collect(2 * LONG_MS, 10)
        assert scene.names() == [scene.name(0)]
        asked: list[str] = []
        scene.line.spoil = lambda method, path: asked.append(path)
        await again.collect(2 * LONG_MS, 10)
        assert asked and not [path for path in asked if "list-type" in path], "nobody looks twice"
        assert await read_of(again, object_of(scene.who, 0), 0, 10) == b"0123456789"

    tell(story)


def test_what_somebody_else_has_laid_there_stays(tell: Callable[..., None]) -> None:
    """And keeps nothing else from being removed."""

    async def story(scene: Scene) -> None:
        others = [f"{CLUSTER}/{scene.who.number:08x}/{name}" for name in ("00000000.old", "notes")]
        for name in others:
            scene.looking.put(name, b"of somebody else")
        await scene.bring(0)
        again = await scene.shared.another_node()
        await again.cluster_id(None, "other")
        await born(again)
        await scene.shared.forward(LONG_MS)
        await again.collect(0, 10)
        assert scene.names() == others

    tell(story)


def test_what_a_living_node_may_yet_name_stays(tell: Callable[..., None]) -> None:
    """However long it takes to commit it, and whoever collects."""

    async def story(scene: Scene) -> None:
        upload = await scene.bring(0)
        other = await scene.shared.another_node()
        await other.cluster_id(None, "other")
        await other.join(2, b"")
        await scene.shared.forward(LONG_MS)
        for store in (scene.store, other):
            await store.collect(0, 10)
        await scene.commit(0, upload)
        assert await read_of(other, object_of(scene.who, 0), 0, 10) == b"0123456789"

    tell(story)


def test_a_commit_that_was_given_up_leaves_its_upload_to_the_next(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        upload = await scene.bring(0)
        assert await scene.store.settle(scene.who, object_of(scene.who, 0)) is None
        with pytest.raises(AssertionError):
            await scene.store.commit(scene.who, object_of(scene.who, 0), upload, [])
        await scene.store.collect(0, 10)
        await scene.commit(1, upload, appended(scene.log, 1))
        assert await read_of(scene.store, object_of(scene.who, 1), 0, 10) == b"0123456789"
        with pytest.raises(AssertionError):
            await scene.store.commit(scene.who, object_of(scene.who, 2), upload, [])

    tell(story)


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.ANSWER_LOST, Fault.REFUSED])
def test_what_leaves_is_removed_though_it_fails_at_first(fault: Fault, tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        await scene.commit(1, await scene.bring(1), trimmed(scene.log, 1, 1))
        await scene.shared.forward(LONG_MS)
        scene.line.spoil = lambda method, path: fault if method in ("POST", "DELETE") else None
        with pytest.raises(StoreUnreachable), scene.without_patience():
            await scene.store.collect(LONG_MS, 10)
        with pytest.raises(ObjectMissing):
            await read_of(scene.store, object_of(scene.who, 0), 0, 10)
        scene.line.mend()
        assert await scene.store.collect(LONG_MS, 10) == 0, "its row went at first"
        assert scene.names() == [scene.name(1)]
        assert await scene.shared.server.sql("SELECT FROM leaving", schema=scene.shared.schema) == []

    tell(story)


def test_what_another_node_removes_at_the_same_time_is_removed(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        await scene.commit(0, await scene.bring(0))
        await scene.commit(1, await scene.bring(1), trimmed(scene.log, 1, 1))
        await scene.shared.forward(LONG_MS)
        scene.line.spoil_next(Fault.ANOTHER_WAS_FASTER, "POST")
        assert await scene.store.collect(LONG_MS, 10) == 1
        assert [method for method, _ in scene.line.spoiled] == ["POST"]
        assert scene.names() == [scene.name(1)]
        assert await scene.shared.server.sql("SELECT FROM leaving", schema=scene.shared.schema) == []

    tell(story)


def test_a_connection_that_ends_in_a_commit_leaves_the_upload_there(tell: Callable[..., None]) -> None:
    async def story(scene: Scene) -> None:
        upload = await scene.bring(0)
        server, schema = scene.shared.server, scene.shared.schema
        lock = await server.connect(schema)
        await lock.execute("BEGIN")
        await lock.execute("SELECT FROM log FOR UPDATE")
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%commit_upload(%'"
        commit = asyncio.ensure_future(scene.commit(0, upload, appended(scene.log, 1)))
        await server.wait_until(waiting)
        for row in await server.sql(waiting):
            await server.sql("SELECT pg_terminate_backend($1)", row["pid"])
        with pytest.raises(CommitUnknown):
            await commit
        lock.terminate()
        assert await scene.store.settle(scene.who, object_of(scene.who, 0)) is None
        await scene.commit(1, upload, appended(scene.log, 1))
        assert await read_of(scene.store, object_of(scene.who, 1), 0, 10) == b"0123456789"

    tell(story)
