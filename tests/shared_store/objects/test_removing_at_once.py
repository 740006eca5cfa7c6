"""Nodes that remove objects at the same time: none waits for another, and what one leaves the other removes."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from broker.shared.objects_in_s3 import ObjectsInS3
from tests.shared_store.engines import LONG_MS, SharedPostgresql, appended, born, object_of, trimmed
from tests.shared_store.objects.s3_server import Looking, S3Server
from tests.shared_store.objects.shared_s3 import SharedS3, with_a_log
from tests.shared_store.postgresql_server import PostgresqlServer

WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tallystick'"


async def without_waiting(server: PostgresqlServer, work: Awaitable[int]) -> int:
    """What comes of it, where it waits for no lock that somebody else has."""
    task = asyncio.ensure_future(work)
    while not task.done():
        assert await server.sql(WAITING) == [], "it waits for another"
        await asyncio.wait([task], timeout=0.01)
    return task.result()


def test_who_removes_objects_waits_for_no_other_who_does(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        shared = SharedPostgresql(postgresql, schema)
        await shared.store.open()
        other = await postgresql.connect(schema)
        try:
            who = await born(shared.store)
            for number in range(4):
                await shared.store.commit(who, object_of(who, number), [], [])
            await shared.forward(LONG_MS)
            await other.execute("BEGIN")
            assert await other.fetchval("SELECT collect_objects(0, 1)") == 1
            assert await without_waiting(postgresql, shared.store.collect(0, 10)) == 2
            await other.execute("ROLLBACK")
            assert await shared.store.collect(0, 10) == 1, "what the other has not removed after all"
        finally:
            other.terminate()
            await shared.close()

    asyncio.run(story())


class HeldMeanwhile:
    """The bucket of a store. While something is removed there, somebody else is about to say that it was."""

    def __init__(self, store: ObjectsInS3, other: Any) -> None:
        self._delete, self._other = store._bucket.delete, other
        setattr(store._bucket, "delete", self._held)  # noqa: B010

    async def _held(self, names: list[str]) -> None:
        await self._delete(names)
        if names:
            await self._other.execute("SELECT FROM leaving FOR UPDATE")


def test_who_removes_from_a_bucket_waits_for_nobody(postgresql: PostgresqlServer, moto: S3Server, schema: str) -> None:
    async def story() -> None:
        shared = SharedS3(postgresql, schema, moto.port, kind=ObjectsInS3)
        store, looking = shared.objects, Looking(moto.port, schema)
        other: Any = None
        try:
            who, log = await with_a_log(store)
            uploads = [await store.upload(who, object_of(who, number), [b"0123456789"]) for number in (1, 2)]
            await store.commit(who, object_of(who, 1), uploads[0], [appended(log, 1)])
            await store.commit(who, object_of(who, 2), uploads[1], [trimmed(log, 1, 1)])
            await store.commit(who, object_of(who, 3), [], [])
            await shared.forward(LONG_MS)
            other = await postgresql.connect(schema)
            await other.execute("BEGIN")
            HeldMeanwhile(store, other)
            assert await without_waiting(postgresql, store.collect(0, 10)) == 2
            assert looking.names() == []
            assert len(await postgresql.sql("SELECT FROM leaving", schema=schema)) == 2, "the other one says it"
            await other.execute("ROLLBACK")
            assert await store.collect(0, 10) == 0
            assert await postgresql.sql("SELECT FROM leaving", schema=schema) == []
        finally:
            if other is not None:
                other.terminate()
            await shared.close()

    asyncio.run(story())
