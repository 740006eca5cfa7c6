"""PostgreSQL with a standby: acknowledged means that the standby has it, whoever ends which connection; a standby that
was promoted without what was acknowledged is refused.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from broker.shared.postgresql import PostgresqlStore
from storage.shared.store import CommitUnknown, FoundLog, OwnedLog, StoreRefused, StoreUnreachable
from tests.shared_store.engines import TOPIC, appended, born, object_of
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

DATA = [b"0123456789"]
SYNC_WAIT = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE $1"

Story = Callable[[PostgresqlServer, PostgresqlServer, PostgresqlStore], Awaitable[None]]


def tell(story: Story) -> None:
    """With a primary, its synchronous standby, and a store that knows both."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)

    async def told() -> None:
        primary = PostgresqlServer()
        standby: PostgresqlServer | None = None
        store: PostgresqlStore | None = None
        try:
            await primary.start()
            standby = await primary.follow_with()
            store = PostgresqlStore(primary.url("shared", standby))
            await store.open()
            await story(primary, standby, store)
        finally:
            if standby is not None:
                standby.close()
            primary.close()
            if store is not None:
                await store.close()

    asyncio.run(told())


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_commit_that_did_not_wait_for_the_standby_is_unknown_until_it_has_it(how: str) -> None:
    """PostgreSQL calls it committed, which it is on the primary. To settle it is to wait for the standby after all."""

    async def story(primary: PostgresqlServer, standby: PostgresqlServer, store: PostgresqlStore) -> None:
        who = await born(store)
        log = await store.claim(who, TOPIC, 0, None)
        standby.pause()
        commit = asyncio.create_task(store.commit(who, object_of(who, 1), DATA, [appended(log, 1)]))
        await primary.wait_until(SYNC_WAIT, "%commit_object(%")
        pid = (await primary.sql(SYNC_WAIT, "%commit_object(%"))[0]["pid"]
        await primary.sql(f"SELECT {how}($1)", pid)
        with pytest.raises(CommitUnknown):
            await commit
        settling = asyncio.create_task(store.settle(who, object_of(who, 1)))
        await primary.wait_until(SYNC_WAIT, "%settle_object(%")
        assert not settling.done()
        standby.resume()
        assert await settling == frozenset()
        primary.stop(signal.SIGKILL)
        await standby.promote()
        assert [one.object_id for one in await until_reached(store.runs, log.log_id, 0, 10)] == [object_of(who, 1)]

    tell(story)


@pytest.mark.parametrize("function", ["claim_log", "look_at_log"])
def test_who_asks_for_a_log_waits_until_the_standby_has_what_it_is_told(function: str) -> None:
    async def story(primary: PostgresqlServer, standby: PostgresqlServer, store: PostgresqlStore) -> None:
        who = await born(store)
        log = await store.claim(who, TOPIC, 0, 0)
        standby.pause()
        commit = asyncio.create_task(store.commit(who, object_of(who, 1), DATA, [appended(log, 1)]))
        await primary.wait_until(SYNC_WAIT, "%commit_object(%")
        pid = (await primary.sql(SYNC_WAIT, "%commit_object(%"))[0]["pid"]
        await primary.sql("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(CommitUnknown):
            await commit
        asked = store.claim(who, TOPIC, 0, 0) if function == "claim_log" else store.look(who, TOPIC, 0, with_kept=True)
        asking: asyncio.Task[OwnedLog | FoundLog | None] = asyncio.ensure_future(asked)
        await primary.wait_until(SYNC_WAIT, f"%{function}(%")
        assert not asking.done()
        await store.heartbeat(who)
        await store.tell()
        assert [one.who for one in await store.members()] == [who]
        standby.resume()
        found = await asking
        assert (found.log if isinstance(found, FoundLog) else found) == replace(log, next_offset=1)

    tell(story)


@pytest.mark.parametrize(("function", "argument"), [("uploads_leaving", 10), ("lives_to_sweep", 0)])
def test_what_is_removed_in_a_bucket_is_on_the_standby(function: str, argument: int) -> None:
    """A failover brings back rows, and nothing that was removed in the bucket because there were none."""

    async def story(primary: PostgresqlServer, standby: PostgresqlServer, store: PostgresqlStore) -> None:
        await born(store)
        await store.leave(await store.join(2, b""))
        await primary.sql("INSERT INTO leaving VALUES (2)", schema="shared")
        standby.pause()
        asking = asyncio.create_task(store._rows(f"SELECT one FROM {function}({argument}) AS found (one)"))
        waiting = asyncio.create_task(primary.wait_until(SYNC_WAIT, f"%{function}(%"))
        done, _ = await asyncio.wait([asking, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert done == {waiting}
        standby.resume()
        assert [row["one"] for row in await asking] == [2]

    tell(story)


def test_a_standby_that_was_promoted_too_early_is_refused_however_far_it_is_by_now() -> None:
    async def story(primary: PostgresqlServer, standby: PostgresqlServer, store: PostgresqlStore) -> None:
        who = await born(store)
        log = await store.claim(who, TOPIC, 0, None)
        assert await store.commit(who, object_of(who, 1), DATA, [appended(log, 1)]) == frozenset()
        await primary.sql("ALTER SYSTEM RESET synchronous_standby_names")
        await primary.sql("SELECT pg_reload_conf()")
        await primary.wait_until("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'async'")
        await primary.stop_sending()
        assert await store.commit(who, object_of(who, 2), DATA, [appended(log, 1, at=1)]) == frozenset()
        primary.stop(signal.SIGKILL)
        await standby.promote()
        await standby.wait_until("SELECT 1 WHERE NOT pg_is_in_recovery()")
        with pytest.raises(StoreRefused, match="a standby that was promoted too early"):
            await until_reached(store.runs, log.log_id, 0, 10)
        other = PostgresqlStore(standby.url("shared"))
        try:
            heir = await born(other, 2)
            taken = await other.claim(heir, TOPIC, 0, None)
            assert taken.next_offset == 1
            for number in range(4):
                change = appended(taken, 1, at=1 + number)
                assert await other.commit(heir, object_of(heir, number), [bytes(1 << 20)], [change]) == frozenset()
            await other.leave(heir)
        finally:
            await other.close()

    tell(story)


async def until_reached(asked: Callable[..., Awaitable[list[object]]], *arguments: object) -> list:  # type: ignore[type-arg]
    while True:
        try:
            return list(await asked(*arguments))
        except StoreUnreachable:
            await asyncio.sleep(0.02)
