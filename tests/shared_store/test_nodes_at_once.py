"""PostgreSQL: nodes that begin, fence one another, and say that they live at the same time; how they hear hints."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.shared.postgresql import PostgresqlStore
from storage.shared.store import Fenced, Incarnation, LogChange
from tests.shared_store.engines import LONG_MS, TOPIC, SharedPostgresql, appended, object_of, stretch, trimmed
from tests.shared_store.postgresql_server import PostgresqlServer

WAITING = """
SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1 AND application_name = 'tallystick'
HAVING count(*) = $2
"""
"""Whether so many calls wait for a lock."""

LISTENING = "SELECT pid FROM pg_stat_activity WHERE query = $1"
LONG_S = 10_000.0

Story = Callable[[SharedPostgresql, Any], Awaitable[None]]


def tell(server: PostgresqlServer, schema: str, story: Story) -> None:
    """With a connection beside the store, whose transaction has begun: it holds what a story wants to be waited for."""

    async def told() -> None:
        shared = SharedPostgresql(server, schema)
        await shared.store.open()
        beside = await server.connect(schema)
        try:
            await beside.execute("BEGIN")
            await story(shared, beside)
        finally:
            beside.terminate()
            await shared.close()

    asyncio.run(told())


@asynccontextmanager
async def at_once(shared: SharedPostgresql, beside: Any, function: str, count: int) -> AsyncIterator[None]:
    """What is asked within goes on when all of it waits to be the only one that ends lives."""
    await beside.execute("SELECT FROM cluster FOR UPDATE")
    yield
    await shared.server.wait_until(WAITING, f"%{function}(%", count)
    await beside.execute("ROLLBACK")


def begun(asked: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(asked)


def test_of_two_starts_of_a_node_the_later_one_lives(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, beside: Any) -> None:
        other = await shared.another_node()
        third = await shared.store.join(3, b"")
        async with at_once(shared, beside, "join_others", 2):
            starts = [begun(store.join(1, about)) for store, about in ((shared.store, b"one"), (other, b"two"))]
        found = [await start for start in starts]
        first, second = sorted(found, key=lambda who: int(who.number))
        assert (first, second) == (Incarnation(1, 2), Incarnation(1, 3))
        about = (b"one", b"two")[found.index(second)]
        assert [(one.who, one.about) for one in await shared.store.members()] == [(second, about), (third, b"")]
        with pytest.raises(Fenced):
            await shared.store.heartbeat(first)
        await other.heartbeat(second)

    tell(postgresql, schema, story)


def test_of_two_that_fence_each_other_one_is_over(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, beside: Any) -> None:
        other = await shared.another_node()
        first, second = await shared.store.join(1, b""), await other.join(2, b"")
        async with at_once(shared, beside, "fence", 2):
            fencing = [begun(shared.store.fence(first, second, 0)), begun(other.fence(second, first, 0))]
        ended = await asyncio.gather(*fencing, return_exceptions=True)
        (survivor,) = [one.who for one in await shared.store.members()]
        won = (first, second).index(survivor)
        assert ended[won] is True
        assert isinstance(ended[1 - won], Fenced)

    tell(postgresql, schema, story)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_heartbeat_waits_for_a_fence_under_way(postgresql: PostgresqlServer, schema: str, end: str) -> None:
    """Answered after it, it would tell a node that is over that it lives for some time to come."""

    async def story(shared: SharedPostgresql, beside: Any) -> None:
        first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
        await shared.forward(LONG_MS)
        query = "SELECT fence($1, $2, $3, $4, $5)"
        over = await beside.fetchval(query, second.number, 2, first.number, 1, LONG_MS)
        assert over is True
        heartbeat = begun(shared.store.heartbeat(first))
        await postgresql.wait_until(WAITING, "%hear(%", 1)
        await beside.execute(end)
        if end == "COMMIT":
            with pytest.raises(Fenced):
                await heartbeat
        else:
            await heartbeat
            assert await shared.store.fence(second, first, LONG_MS) is False

    tell(postgresql, schema, story)


def test_a_fence_waits_for_a_heartbeat_under_way_and_finds_it(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, beside: Any) -> None:
        first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
        await shared.forward(LONG_MS)
        assert await beside.fetchval("SELECT hear($1, $2)", first.number, 1) is True
        fencing = begun(shared.store.fence(second, first, LONG_MS))
        await postgresql.wait_until(WAITING, "%fence(%", 1)
        await beside.execute("COMMIT")
        assert await fencing is False
        await shared.store.heartbeat(first)

    tell(postgresql, schema, story)


def test_a_clock_that_went_back_does_not_save_who_is_to_be_over_at_once(
    postgresql: PostgresqlServer, schema: str
) -> None:
    async def story(shared: SharedPostgresql, _: Any) -> None:
        first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
        await shared.forward(-LONG_MS)
        assert [one.silent_ms for one in await shared.store.members()] == [0, 0]
        assert await shared.store.fence(first, second, 1) is False
        assert await shared.store.fence(first, second, 0) is True

    tell(postgresql, schema, story)


def test_nothing_is_kept_of_who_is_over_though_somebody_older_lives(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, _: Any) -> None:
        older, over = await shared.store.join(1, b""), await shared.store.join(2, b"")
        for who in (older, over):
            assert await shared.store.settle(who, object_of(who, 1)) is None
        assert await shared.store.fence(older, over, 0) is True
        assert await shared.store.collect(0, 10) == 0
        rows = await postgresql.sql("SELECT object_id FROM object", schema=schema)
        assert [row["object_id"] for row in rows] == [object_of(older, 1)]

    tell(postgresql, schema, story)


@pytest.mark.parametrize("seed", range(2))
def test_nodes_that_all_end_one_another_wait_in_no_circle(postgresql: PostgresqlServer, schema: str, seed: int) -> None:
    """A circle would be told as a store that cannot be reached. Whoever is over has committed nothing since."""

    async def story(shared: SharedPostgresql, _: Any) -> None:
        over: set[Incarnation] = set()
        stores = [shared.store, *[await shared.another_node() for _ in range(3)]]
        ended = await asyncio.gather(
            *(live(store, node_id, over, f"{seed} {node_id}") for node_id, store in enumerate(stores))
        )
        assert sum(fenced for fenced, _ in ended) > 10
        assert sum(commits for _, commits in ended) > 10
        numbers = [one.who.number for one in await shared.store.members()]
        assert not {who.number for who in over} & set(numbers)

    tell(postgresql, schema, story)


async def live(store: PostgresqlStore, node_id: int, over: set[Incarnation], seed: str) -> tuple[int, int]:
    """Until it has done some things; returns how often it was fenced, and how often it committed."""
    draw = random.Random(seed)
    fenced, commits = 0, 0
    who = await store.join(node_id, b"")
    for number in range(150):
        try:
            match draw.choice(("fence", "fence", "commit", "commit", "commit", "hear", "look", "leave")):
                case "fence":
                    others = [one.who for one in await store.members() if one.who != who]
                    other = draw.choice(others or [Incarnation(node_id, 1_000_000)])
                    if await store.fence(who, other, draw.choice((0, 0, LONG_MS))):
                        over.add(other)
                case "commit":
                    was_over = who in over
                    assert await store.commit(who, object_of(who, number), [b"0123456789"], []) == frozenset()
                    assert not was_over, f"{who} was over, and has committed"
                    commits += 1
                case "hear":
                    was_over = who in over
                    await store.heartbeat(who)
                    assert not was_over, f"{who} was over, and was told that it lives"
                case "look":
                    await store.look(who, TOPIC, 0, with_kept=True)
                case "leave":
                    await store.leave(who)
        except Fenced:
            fenced += 1
            who = await store.join(node_id, b"")
    return fenced, commits


def test_commits_that_let_go_of_the_same_objects_wait_in_no_circle(postgresql: PostgresqlServer, schema: str) -> None:
    """One replaces a run of the second object and forgets one of the first, the other forgets those of both: it waits
    for the first object already when the one begins."""

    async def story(shared: SharedPostgresql, beside: Any) -> None:
        store, other = shared.store, await shared.another_node()
        who, whose_other = await store.join(1, b""), await other.join(2, b"")
        objects = [object_of(who, number) for number in (1, 2)]
        mine, others = [await store.claim(who, TOPIC, index, None) for index in (0, 1)]
        for base, made in enumerate(objects):
            both = [appended(log, 1, at=base) for log in (mine, others)]
            assert await store.commit(who, made, [b"0123456789"], both) == frozenset()
        others = await other.claim(whose_other, TOPIC, 1, None)

        await beside.execute(f"SELECT FROM object WHERE object_id = {objects[0]} FOR UPDATE")
        forgets = begun(other.commit(whose_other, object_of(whose_other, 1), [], [trimmed(others, 2, 2)]))
        await postgresql.wait_until(WAITING, "%commit_object(%", 1)
        replaces = LogChange(mine.log_id, mine.owner_epoch, 2, (), 1, 1, None, (1, 1), (stretch(1),))
        one = begun(store.commit(who, object_of(who, 3), [b"0123456789"], [replaces]))
        await postgresql.wait_until(WAITING, "%commit_object(%", 2)
        await beside.execute("ROLLBACK")
        assert await forgets == await one == frozenset()
        left = await postgresql.sql("SELECT object_id FROM object WHERE live_runs > 0", schema=schema)
        assert [row["object_id"] for row in left] == [object_of(who, 3)]

    tell(postgresql, schema, story)


async def listeners(shared: SharedPostgresql, count: int) -> list[int]:
    """Who serves the connections that hear hints, once there are so many."""
    query = f'LISTEN "tallystick_{shared.schema}"'
    await shared.server.wait_until(f"SELECT FROM ({LISTENING}) AS them HAVING count(*) = $2", query, count)
    return [int(row["pid"]) for row in await shared.server.sql(LISTENING, query)]


async def told_at_last(waiting: "asyncio.Task[None]", teller: PostgresqlStore) -> None:
    """It listens, and may not have said so yet."""
    for _ in range(2_000):
        await teller.tell()
        done, _ = await asyncio.wait([waiting], timeout=0.01)
        if done:
            break
    assert waiting.done()
    await waiting


def test_one_connection_hears_hints_and_is_made_again_by_who_waits(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, _: Any) -> None:
        store, other = shared.store, await shared.another_node()
        before = 0
        for _ in range(3):
            for _ in range(20):  # It may not have heard yet that its connection is gone.
                await asyncio.gather(*(store.wait_until_told(0.01) for _ in range(5)))
            await told_at_last(begun(store.wait_until_told(LONG_S)), other)
            (pid,) = await listeners(shared, 1)
            assert pid != before
            await postgresql.sql("SELECT pg_terminate_backend($1)", pid)
            assert await listeners(shared, 0) == []
            before = pid

    tell(postgresql, schema, story)


def test_who_closes_hears_nothing_any_more_and_waits_no_longer(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, _: Any) -> None:
        store = await shared.another_node()
        waiting = [begun(store.wait_until_told(LONG_S)) for _ in range(3)]
        assert len(await listeners(shared, 1)) == 1
        await store.close()
        await asyncio.gather(*waiting)
        assert await listeners(shared, 0) == []
        for _ in range(2):
            await store.wait_until_told(0.01)
        assert store._notices._connecting is None
        assert await listeners(shared, 0) == []

    tell(postgresql, schema, story)


def test_hints_are_heard_however_long_the_name_of_the_schema_is(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(shared: SharedPostgresql, _: Any) -> None:
        await told_at_last(begun(shared.store.wait_until_told(LONG_S)), await shared.another_node())

    tell(postgresql, schema.ljust(63, "x"), story)


def test_nobody_waits_for_a_server_that_says_nothing_and_it_is_asked_once() -> None:
    async def story() -> None:
        accepted: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
        server = await asyncio.start_server(lambda reader, _: accepted.put_nowait(reader), "127.0.0.1", 0)
        store = PostgresqlStore(f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/postgres")
        try:
            await asyncio.gather(*(store.wait_until_told(0.01) for _ in range(3)))
            asked = await accepted.get()
            await store.wait_until_told(0.01)
            assert not asked.at_eof(), "it is still asked"
            await store.close()
            assert store._notices._connecting is None
            await asked.read()
            await store.wait_until_told(0.01)
            assert accepted.empty()
        finally:
            await store.close()
            server.close()

    asyncio.run(story())
