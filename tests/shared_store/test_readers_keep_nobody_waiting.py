"""PostgreSQL: however many readers wait for what they want, whoever commits, says that it lives, or opens a log is
answered.
"""

import asyncio

import pytest

from broker.shared import postgresql as module
from broker.shared.postgresql import LEFT_BY_READERS, READERS
from storage.shared.store import Run, StoredRun
from tests.shared_store.engines import TOPIC, SharedPostgresql, appended, born, object_of, read_of
from tests.shared_store.postgresql_server import PostgresqlServer

DATA = [b"0123456789"]
LOCK = 7301
PATIENCE_S = 60.0
WAITING = "SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND application_name = 'tallystick' OFFSET $1"


def _held_up(object_id: int) -> str:
    """A read of this object waits for the lock."""
    locked = f"CASE WHEN object_id = {object_id} THEN pg_advisory_xact_lock_shared({LOCK})::text END AS held"
    return module._READ.replace("AS found\n", f"AS found, {locked}\n")


def test_reads_that_stand_still_delay_nobody_but_readers(
    postgresql: PostgresqlServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        shared = SharedPostgresql(postgresql, schema)
        store = shared.store
        lock = await postgresql.connect()
        try:
            await store.open()
            who = await born(store)
            log = await store.claim(who, TOPIC, 0, None)
            for number in (1, 2):
                await store.commit(who, object_of(who, number), DATA, [appended(log, 1, at=number - 1)])
            monkeypatch.setattr(module, "_READ", _held_up(object_of(who, 1)))
            await lock.execute(f"SELECT pg_advisory_lock({LOCK})")
            wanted = [StoredRun(object_of(who, 1), Run(0, 0, 0, 10, 0))]
            reading = [asyncio.create_task(store.read(wanted, for_reader=True)) for _ in range(3 * READERS)]
            await postgresql.wait_until(WAITING, READERS - LEFT_BY_READERS - 1)
            async with asyncio.timeout(PATIENCE_S):
                for number in (3, 4):
                    await store.commit(who, object_of(who, number), DATA, [appended(log, 1, at=number - 1)])
                await store.heartbeat(who)
                assert len(await store.members()) == 1
                assert (await store.claim(who, TOPIC, 0, log.owner_epoch)).next_offset == 4
                assert await store.look(who, TOPIC, 0, with_kept=True) is not None
                assert len(await store.runs(log.log_id, 0, 10)) == 4
                assert await read_of(store, object_of(who, 2), 0, 10) == b"0123456789", "as who opens a log does"
            assert not any(one.done() for one in reading)
            await lock.execute(f"SELECT pg_advisory_unlock({LOCK})")
            assert await asyncio.gather(*reading) == [[b"0123456789"]] * len(reading)
        finally:
            lock.terminate()
            await shared.close()

    asyncio.run(story())
