"""PostgreSQL: what waits for a commit under way, and what becomes of it when nobody waits any more or its connection
ends. A commit is held in the middle by a lock on an object that it takes a run from.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from broker.shared.postgresql import PostgresqlStore
from storage.shared.store import (
    CommitUnknown,
    Fenced,
    Incarnation,
    LogChange,
    OwnedLog,
    StoreUnreachable,
)
from tests.shared_store.engines import LONG_MS, TOPIC, SharedPostgresql, appended, born, object_of, stretch
from tests.shared_store.postgresql_server import PostgresqlServer

DATA = [b"0123456789"]
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1 AND application_name = $2"


@dataclass(slots=True)
class Held:
    """A commit that stands still after it has made its object and changed its log: 2 runs, and the first is gone."""

    shared: SharedPostgresql
    who: Incarnation
    log: OwnedLog
    lock: Any
    commit: "asyncio.Task[frozenset[int]]"

    @property
    def object_id(self) -> int:
        return object_of(self.who, 2)

    async def wait_until_waiting(self, function: str) -> int:
        """Until a call of it waits for a lock; who serves it."""
        query = f"%{function}(%"
        await self.shared.server.wait_until(WAITING, query, "tallystick")
        rows = await self.shared.server.sql(WAITING, query, "tallystick")
        return int(rows[0]["pid"])

    async def end_its_connection(self) -> None:
        pid = await self.wait_until_waiting("commit_object")
        await self.shared.server.sql("SELECT pg_terminate_backend($1)", pid)

    async def go_on(self) -> None:
        await self.lock.execute("ROLLBACK")


@asynccontextmanager
async def a_commit_under_way(server: PostgresqlServer, schema: str) -> AsyncIterator[Held]:
    shared = SharedPostgresql(server, schema)
    await shared.store.open()
    lock = await server.connect(schema)
    commit: asyncio.Task[frozenset[int]] | None = None
    try:
        who = await born(shared.store)
        log = await shared.store.claim(who, TOPIC, 0, None)
        await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 1)])
        await lock.execute("BEGIN")
        await lock.execute("SELECT FROM object FOR UPDATE")
        change = LogChange(log.log_id, 0, 1, (stretch(1, 2),), start_offset=1, first_offset=1)
        commit = asyncio.create_task(shared.store.commit(who, object_of(who, 2), DATA, [change]))
        held = Held(shared, who, log, lock, commit)
        await held.wait_until_waiting("commit_object")
        yield held
    finally:
        lock.terminate()
        if commit is not None:
            await asyncio.wait([commit])
        await shared.close()


def test_settle_waits_for_the_commit_and_says_what_it_said(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            settling = asyncio.create_task(held.shared.store.settle(held.who, held.object_id))
            await held.wait_until_waiting("settle_object")
            await held.go_on()
            assert await settling == frozenset()
            assert await held.commit == frozenset()
            assert len(await held.shared.store.runs(held.log.log_id, 0, 10)) == 1

    asyncio.run(story())


def test_settle_wins_where_the_commit_is_lost(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            settling = asyncio.create_task(held.shared.store.settle(held.who, held.object_id))
            await held.wait_until_waiting("settle_object")
            await held.end_its_connection()
            assert await settling is None
            with pytest.raises(CommitUnknown):
                await held.commit
            assert (await held.shared.store.claim(held.who, TOPIC, 0, 0)).next_offset == 1
            again = [appended(held.log, 1, at=1)]
            assert await held.shared.store.commit(held.who, object_of(held.who, 3), DATA, again) == frozenset()

    asyncio.run(story())


@pytest.mark.parametrize("who_ends_it", ["fence", "join_others"])
def test_a_life_is_over_when_its_commits_are(postgresql: PostgresqlServer, schema: str, who_ends_it: str) -> None:
    """Another fences it, or its node begins anew beside the other."""

    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            other = await held.shared.another_node()
            heir = await other.join(2, b"")
            ending = asyncio.create_task(
                other.fence(heir, held.who, 0) if who_ends_it == "fence" else other.join(held.who.node_id, b"")
            )
            await held.wait_until_waiting(who_ends_it)
            looked = await other.look(heir, TOPIC, 0, with_kept=True)
            assert looked is not None and looked.log.next_offset == 1, "it waits for no commit"
            await held.go_on()
            assert await ending in (True, Incarnation(held.who.node_id, heir.number + 1))
            assert await held.commit == frozenset()
            looked = await other.look(heir, TOPIC, 0, with_kept=True)
            assert looked is not None and looked.log.next_offset == 3
            assert (await other.claim(heir, TOPIC, 0, None)).next_offset == 3
            with pytest.raises(Fenced):
                await held.shared.store.commit(held.who, object_of(held.who, 3), DATA, [appended(held.log, 1, at=3)])

    asyncio.run(story())


def test_a_heartbeat_saves_a_life_while_its_commits_are_waited_for(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            other = await held.shared.another_node()
            await held.shared.forward(LONG_MS)
            fencing = asyncio.create_task(other.fence(await other.join(2, b""), held.who, LONG_MS))
            await held.wait_until_waiting("fence")
            await held.shared.store.heartbeat(held.who)
            await held.go_on()
            assert await fencing is False
            assert await held.commit == frozenset()
            again = [appended(held.log, 1, at=3)]
            assert await held.shared.store.commit(held.who, object_of(held.who, 3), DATA, again) == frozenset()

    asyncio.run(story())


def test_who_closes_does_not_wait_and_what_was_under_way_is_unknown(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            await held.shared.store.close()
            with pytest.raises(CommitUnknown):
                await held.commit
            with pytest.raises(StoreUnreachable):
                await held.shared.store.heartbeat(held.who)
            await held.go_on()
            other = await held.shared.another_node()
            assert await other.settle(held.who, held.object_id) == frozenset()

    asyncio.run(story())


def test_a_claim_finds_the_commit_that_was_under_way(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            claiming = asyncio.create_task(held.shared.store.claim(held.who, TOPIC, 0, None))
            await held.wait_until_waiting("claim_log")
            await held.go_on()
            assert await claiming == OwnedLog(held.log.log_id, 1, 1, 1, 3, b"")
            assert await held.commit == frozenset()

    asyncio.run(story())


def test_heartbeats_and_readers_wait_for_no_commit(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            store = held.shared.store
            settling = [asyncio.create_task(store.settle(held.who, held.object_id)) for _ in range(10)]
            await held.wait_until_waiting("settle_object")
            await store.heartbeat(held.who)
            assert len(await store.runs(held.log.log_id, 0, 10)) == 1
            assert not held.commit.done()
            await held.go_on()
            assert await asyncio.gather(*settling) == [frozenset()] * 10

    asyncio.run(story())


def test_a_caller_that_is_cancelled_leaves_the_commit_to_its_end(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            held.commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held.commit
            following = [appended(held.log, 1, at=3)]
            next_one = asyncio.create_task(held.shared.store.commit(held.who, object_of(held.who, 3), DATA, following))
            await held.wait_until_waiting("commit_object")
            await held.go_on()
            assert await next_one == frozenset()
            assert await held.shared.store.settle(held.who, held.object_id) == frozenset()

    asyncio.run(story())


def test_what_is_not_lost_is_known(postgresql: PostgresqlServer, schema: str) -> None:
    """A statement that the server has cancelled by itself was not made, and says so."""

    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            pid = await held.wait_until_waiting("commit_object")
            await postgresql.sql("SELECT pg_cancel_backend($1)", pid)
            with pytest.raises(StoreUnreachable):
                await held.commit
            await held.go_on()
            assert (await held.shared.store.claim(held.who, TOPIC, 0, 0)).next_offset == 1

    asyncio.run(story())


def test_many_that_lock_the_same_rows_in_other_orders_wait_in_no_circle(
    postgresql: PostgresqlServer, schema: str
) -> None:
    """Objects with runs of all logs, which each commit takes runs from; a log's changes are told in any order."""

    async def story() -> None:
        shared = SharedPostgresql(postgresql, schema)
        await shared.store.open()
        try:
            stores = [shared.store, await shared.another_node(), await shared.another_node()]
            who = await born(shared.store)
            logs = [await shared.store.claim(who, TOPIC, index, None) for index in range(12)]
            for number in range(40):
                changes = [appended(log, 1, at=number) for log in logs]
                assert await shared.store.commit(who, object_of(who, 1_000 + number), DATA, changes) == frozenset()

            async def trim(which: int) -> None:
                """Its own logs, and beside them those of the next one, of which it is wrong."""
                own = logs[which::3]
                foreign = logs[(which + 1) % 3 :: 3]
                for number in range(1, 41):
                    changes = [LogChange(log.log_id, 0, 40, (), number, number) for log in own]
                    changes += [LogChange(log.log_id, 0, 0, (), 1, 1) for log in foreign]
                    if which % 2:
                        changes.reverse()
                    object_id = object_of(who, 10_000 * (which + 1) + number)
                    assert await stores[which].commit(who, object_id, [], changes) == {log.log_id for log in foreign}

            await asyncio.gather(*(trim(which) for which in range(3)))
            for log in logs:
                assert await shared.store.runs(log.log_id, 0, 10) == []
            alive = await postgresql.sql("SELECT FROM object WHERE live_runs > 0 OR dead_since IS NULL", schema=schema)
            assert alive == []
        finally:
            await shared.close()

    asyncio.run(story())


def test_a_topic_that_is_deleted_waits_for_a_commit_under_way(postgresql: PostgresqlServer, schema: str) -> None:
    """What that has brought is forgotten, too: nobody else would ever do it."""

    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            forgetting = asyncio.create_task(held.shared.store.forget(held.who, TOPIC))
            await held.wait_until_waiting("forget_topic")
            await held.go_on()
            assert await held.commit == frozenset()
            await forgetting
            assert await held.shared.store.runs(held.log.log_id, 0, 10) == []
            held_ones = await postgresql.sql("SELECT object_id FROM object WHERE live_runs > 0", schema=schema)
            assert held_ones == []

    asyncio.run(story())


PLANS = ("", "&enable_hashjoin=off&enable_mergejoin=off&enable_seqscan=off&enable_sort=off")
"""As the planner likes it, and row by row as a commit names them."""


@pytest.mark.parametrize("plan", PLANS, ids=["planned", "row_by_row"])
@pytest.mark.parametrize("table", ["log", "object"])
def test_rows_are_locked_in_the_order_of_their_ids(
    postgresql: PostgresqlServer, schema: str, table: str, plan: str
) -> None:
    """A commit that waits for the first of them holds no later one, in whatever order it names them."""

    async def story() -> None:
        shared = SharedPostgresql(postgresql, schema)
        shared.store = PostgresqlStore(postgresql.url(schema) + plan)
        await shared.store.open()
        lock = await postgresql.connect(schema)
        try:
            who = await born(shared.store)
            logs = [await shared.store.claim(who, TOPIC, index, None) for index in range(12)]
            for number in range(12):
                changes = [appended(log, 1, at=number) for log in logs]
                assert await shared.store.commit(who, object_of(who, number), DATA, changes) == frozenset()
            await lock.execute("BEGIN")
            await lock.execute(f"SELECT FROM {table} ORDER BY {table}_id LIMIT 1 FOR UPDATE")
            changes = [LogChange(log.log_id, 0, 12, (), 12, 12) for log in reversed(logs)]
            commit = asyncio.create_task(shared.store.commit(who, object_of(who, 99), [], changes))
            await postgresql.wait_until(WAITING, "%commit_object(%", "tallystick")
            free = await postgresql.sql(f"SELECT FROM {table} FOR UPDATE SKIP LOCKED", schema=schema)
            assert len(free) == 11
            await lock.execute("ROLLBACK")
            assert await commit == frozenset()
        finally:
            lock.terminate()
            await shared.close()

    asyncio.run(story())


def test_claims_at_once_have_an_epoch_each(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        shared = SharedPostgresql(postgresql, schema)
        await shared.store.open()
        lock = await postgresql.connect(schema)
        try:
            who = await born(shared.store)
            await shared.store.claim(who, TOPIC, 0, None)
            await lock.execute("BEGIN")
            await lock.execute("SELECT FROM log FOR UPDATE")
            claims = [asyncio.create_task(shared.store.claim(who, TOPIC, 0, None)) for _ in range(2)]
            two = f"SELECT FROM ({WAITING}) AS waiting HAVING count(*) = 2"
            await postgresql.wait_until(two, "%claim_log(%", "tallystick")
            await lock.execute("ROLLBACK")
            assert sorted([(await claim).owner_epoch for claim in claims]) == [1, 2]
        finally:
            lock.terminate()
            await shared.close()

    asyncio.run(story())


def test_a_commit_over_a_connection_that_has_ended_can_be_settled(postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        async with a_commit_under_way(postgresql, schema) as held:
            await held.end_its_connection()
            with pytest.raises(CommitUnknown):
                await held.commit
            await held.go_on()
            assert await held.shared.store.settle(held.who, held.object_id) is None
            again = [appended(held.log, 1, at=1)]
            assert await held.shared.store.commit(held.who, object_of(held.who, 3), DATA, again) == frozenset()

    asyncio.run(story())
