"""What a story about a shared store is told to: the model, and every engine."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from broker.shared.postgresql import PostgresqlStore
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import Incarnation, LogChange, OwnedLog, Run, SharedStore, StoredRun
from tests.shared_store.objects.s3_server import SERVERS
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

ENGINES = ("model", "postgresql", *SERVERS)
"""All but the first two are servers of buckets, beside PostgreSQL."""
LONG_MS = 10_000_000
"""Clocks are moved by multiples of it: nothing here takes as long."""


async def read_of(store: SharedStore, object_id: int, position: int, size_bytes: int) -> bytes:
    """A stretch of an object, whatever log it belongs to."""
    (found,) = await store.read([StoredRun(object_id, Run(0, 0, position, size_bytes, 0))])
    return found


class Shared(Protocol):
    """One store, as nodes reach it, and its clock."""

    @property
    def store(self) -> SharedStore: ...

    async def another_node(self) -> SharedStore: ...

    async def forward(self, ms: int) -> None:
        """Time goes by."""

    async def rewrite(self, object_id: int, change: Callable[[bytes], bytes]) -> None:
        """Somebody changes the bytes of an object, behind everybody's back."""

    async def close(self) -> None: ...


class SharedModel:
    """The model: every node has the same object."""

    def __init__(self) -> None:
        self._now_ms = 0
        self.store: StoreInMemory = StoreInMemory(lambda: self._now_ms)

    async def another_node(self) -> SharedStore:
        return self.store

    async def forward(self, ms: int) -> None:
        self._now_ms += ms

    async def rewrite(self, object_id: int, change: Callable[[bytes], bytes]) -> None:
        held = self.store._objects[object_id]
        assert held is not None, "it was made"
        held.data = change(held.data)

    async def close(self) -> None:
        await self.store.close()


class SharedPostgresql:
    """A schema of a server. Its clock is moved by what was written down by it."""

    def __init__(self, server: PostgresqlServer, schema: str) -> None:
        self.server = server
        self.schema = schema
        self.store: PostgresqlStore = PostgresqlStore(server.url(schema))
        self._others: list[PostgresqlStore] = []

    async def another_node(self) -> PostgresqlStore:
        self._others.append(PostgresqlStore(self.server.url(self.schema)))
        await self._others[-1].open()
        return self._others[-1]

    async def forward(self, ms: int) -> None:
        for column in ("heard.at", "object.dead_since"):
            table, _, name = column.partition(".")
            change = f"UPDATE {table} SET {name} = {name} - $1 * interval '1 millisecond' WHERE {name} IS NOT NULL"
            await self.server.sql(change, ms, schema=self.schema)

    async def rewrite(self, object_id: int, change: Callable[[bytes], bytes]) -> None:
        query = "SELECT bytes FROM object WHERE object_id = $1"
        (row,) = await self.server.sql(query, object_id, schema=self.schema)
        update = "UPDATE object SET bytes = $2 WHERE object_id = $1"
        await self.server.sql(update, object_id, change(row["bytes"]), schema=self.schema)

    async def close(self) -> None:
        for store in (self.store, *self._others):
            await store.close()


Story = Callable[[Shared], Awaitable[None]]


@dataclass(frozen=True)
class Engine:
    """Tells a story to a new store."""

    shared: Callable[[], Shared]

    def tell(self, story: Story) -> None:
        async def told() -> None:
            shared = self.shared()
            try:
                await shared.store.open()
                await story(shared)
            finally:
                await shared.close()

        asyncio.run(told())


def told(story: Story) -> Callable[[Engine], None]:
    """A test that tells this to each engine."""

    def test(engine: Engine) -> None:
        engine.tell(story)

    test.__name__ = test.__qualname__ = getattr(story, "__name__")  # noqa: B009
    test.__doc__ = story.__doc__
    return test


def engine_called(name: str, request: pytest.FixtureRequest, schema: str) -> Engine:
    if name == "model":
        return Engine(SharedModel)
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    if name != "postgresql":
        from tests.shared_store.objects.shared_s3 import SharedS3

        port: int = request.getfixturevalue(name).port
        return Engine(lambda: SharedS3(server, schema, port))
    return Engine(lambda: SharedPostgresql(server, schema))


# -- words of the stories ----------------------------------------------------------------------------------------

TOPIC = bytes(range(16))
OTHER_TOPIC = bytes(16)


def object_of(who: Incarnation, number: int) -> int:
    return (who.number << 32) | number


async def born(store: SharedStore, node_id: int = 1) -> Incarnation:
    """A new life, and the only one: those of others are over."""
    who = await store.join(node_id, b"")
    for other in await store.members():
        if other.who != who:
            assert await store.fence(who, other.who, 0), "it lived a moment ago"
    return who


def stretch(base: int, count: int = 1, *, position: int = 0, size: int = 10, stamp: int = 7) -> Run:
    return Run(base, base + count - 1, position, size, stamp)


def appended(log: OwnedLog, count: int, *, at: int | None = None, kept: bytes | None = None) -> LogChange:
    base = log.next_offset if at is None else at
    return LogChange(log.log_id, log.owner_epoch, base, (stretch(base, count),), kept=kept)


def trimmed(log: OwnedLog, end: int, start: int) -> LogChange:
    """Everything before `start` may be forgotten."""
    return LogChange(log.log_id, log.owner_epoch, end, start_offset=start, first_offset=start)
