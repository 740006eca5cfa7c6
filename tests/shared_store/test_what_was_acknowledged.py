"""A database that is without what it had acknowledged to a node is refused, and no other is."""

import pytest

from broker.shared.postgresql import PostgresqlStore
from storage.shared.store import Incarnation, StoreRefused, StoreUnreachable
from tests.shared_store.engines import born, object_of
from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.test_postgresql_schema import tell


@pytest.mark.parametrize("loss", ["DELETE FROM object", "UPDATE object SET written_at = '0/1'"])
def test_a_database_without_what_it_had_acknowledged_is_refused(
    postgresql: PostgresqlServer, schema: str, loss: str
) -> None:
    """Another history may have an object of the same id."""

    async def story(store: PostgresqlStore) -> None:
        await store.open()
        who = await born(store)
        for number in range(3):
            assert await store.commit(who, object_of(who, number), [], []) == frozenset()
        end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tallystick'"
        await postgresql.sql(end_all)
        while True:
            try:
                await store.heartbeat(who)
                break
            except StoreUnreachable:
                continue
        await postgresql.sql(f"{loss} WHERE object_id = $1", object_of(who, 2), schema=schema)
        await postgresql.sql(end_all)
        for _ in range(3):
            while True:
                try:
                    await store.heartbeat(who)
                    pytest.fail("it was answered")
                except StoreUnreachable:
                    continue
                except StoreRefused as refused:
                    assert f"is without what was acknowledged to node 1 (incarnation {who.number}" in str(refused)
                    break

    tell(postgresql.url(schema), story)


@pytest.mark.parametrize("is_made", [True, False])
def test_a_database_with_a_later_object_than_was_acknowledged_is_not_refused(
    postgresql: PostgresqlServer, schema: str, is_made: bool
) -> None:
    """The acknowledged one holds no run and may go; the later one was made and its answer was lost. One that was given
    up says nothing of what lay before it."""

    async def story(store: PostgresqlStore) -> None:
        await store.open()
        who = await born(store)
        assert await store.commit(who, object_of(who, 1), [], []) == frozenset()
        other = PostgresqlStore(postgresql.url(schema))
        try:
            if is_made:
                assert await other.commit(who, object_of(who, 2), [], []) == frozenset()
                assert await other.collect(0, 10) == 1
            else:
                assert await other.settle(who, object_of(who, 2)) is None
                await postgresql.sql("DELETE FROM object WHERE object_id = $1", object_of(who, 1), schema=schema)
        finally:
            await other.close()
        fresh = PostgresqlStore(postgresql.url(schema))
        fresh._acknowledged = store._acknowledged
        try:
            if is_made:
                await fresh.heartbeat(who)
            else:
                with pytest.raises(StoreRefused, match="is without what was acknowledged"):
                    await fresh.heartbeat(who)
        finally:
            await fresh.close()

    tell(postgresql.url(schema), story)


def test_who_was_fenced_meanwhile_is_told_so_though_its_objects_are_gone(
    postgresql: PostgresqlServer, schema: str
) -> None:
    async def story(store: PostgresqlStore) -> None:
        await store.open()
        who = await born(store)
        assert await store.commit(who, object_of(who, 1), [], []) == frozenset()
        other = PostgresqlStore(postgresql.url(schema))
        try:
            await other.leave(await born(other, 2))
            assert await other.collect(0, 10) == 1
        finally:
            await other.close()
        fresh = PostgresqlStore(postgresql.url(schema))
        fresh._acknowledged = store._acknowledged
        try:
            assert await fresh.join(1, b"") == Incarnation(1, who.number + 2)
        finally:
            await fresh.close()

    tell(postgresql.url(schema), story)
