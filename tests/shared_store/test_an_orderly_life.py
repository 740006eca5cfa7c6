"""PostgreSQL: one node after the other asks for everything, and nothing goes wrong. No planted defect of SQL is met by
that: each is a statement that the server understands, and what notices it notices what it does.
"""

import asyncio
from contextlib import nullcontext

import pytest

from broker.shared import objects_in_s3
from storage.shared.store import LogChange, Upload
from tests.mutants.over_a_store.section import is_sql
from tests.mutants.over_a_store.table import MUTANTS
from tests.shared_store.engines import LONG_MS, OTHER_TOPIC, TOPIC, SharedPostgresql, appended, object_of, stretch
from tests.shared_store.postgresql_server import PostgresqlServer

DATA = [b"0123456789"]
DEFECTS = [name for name, mutant in MUTANTS.items() if is_sql(mutant)]


async def live(shared: SharedPostgresql) -> None:
    """Two nodes, one behind the other."""
    store = shared.store
    await store.open()
    who = await store.join(1, b"of 1")
    await store.heartbeat(who)
    log, other = await store.claim(who, TOPIC, 0, None), await store.claim(who, OTHER_TOPIC, 0, 3)
    changes = [appended(log, 2), appended(other, 2)]
    assert await store.commit(who, object_of(who, 1), DATA, changes) == frozenset()
    for number in (1, 2):
        await store.settle(who, object_of(who, number))
    merged = LogChange(log.log_id, 0, 2, (stretch(2),), replaced=(0, 1), replacements=(stretch(0, 2),))
    assert await store.commit(who, object_of(who, 3), DATA, [merged]) == frozenset()
    later = LogChange(other.log_id, 3, 2, (stretch(2),), start_offset=2, first_offset=2)
    assert await store.commit(who, object_of(who, 4), Upload(object_of(who, 9), 10), [later]) == frozenset()
    found = await store.look(who, TOPIC, 0, with_kept=True)
    assert found is not None and (found.owner, found.log.next_offset) == (who, 3)
    await shared.forward(LONG_MS)
    heir = await store.join(2, b"of 2")
    assert await store.fence(heir, who, 0) is True
    assert heir in [one.who for one in await store.members()]
    assert (await store.claim(heir, TOPIC, 0, None)).next_offset == 3
    assert len(await store.runs(log.log_id, 0, 10)) == 2
    await store.forget(heir, OTHER_TOPIC)
    await shared.forward(LONG_MS)
    await store.collect(LONG_MS, 10)
    await remove(shared)
    await store.tell()
    await store.leave(heir)


async def remove(shared: SharedPostgresql) -> None:
    """What a node with a bucket asks beside."""
    store = shared.store
    rows = await store._rows("SELECT * FROM place_objects('s3://bucket', 1, 0)")
    assert [row["placed"] for row in rows] == ["s3://bucket"]
    leaving = [row["upload"] for row in await store._rows(objects_in_s3._LEAVING, 10)]
    await store._rows(objects_in_s3._NAMED, leaving)
    await store._rows(objects_in_s3._LEFT, leaving)
    await store._rows("SELECT life FROM lives_to_sweep(0)")


@pytest.mark.parametrize("name", ["", *DEFECTS])
def test_nothing_goes_wrong(name: str, postgresql: PostgresqlServer, schema: str) -> None:
    async def story() -> None:
        shared = SharedPostgresql(postgresql, schema)
        try:
            await live(shared)
        finally:
            await shared.close()

    with MUTANTS[name].planted() if name else nullcontext():
        asyncio.run(story())
