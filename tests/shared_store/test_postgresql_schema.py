"""PostgreSQL: the tables and who may find which, what is said where it cannot work, connections that no setting of the
database makes unsafe.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import replace

import asyncpg
import pytest

from broker.shared import connections, migration
from broker.shared.postgresql import _COMMIT_UPLOAD, PostgresqlStore, _columns
from broker.shared.schema import MIGRATIONS
from storage.shared.store import (
    FoundLog,
    Incarnation,
    LogChange,
    OwnedLog,
    Run,
    StoreRefused,
    StoreUnreachable,
)
from tests.shared_store.engines import TOPIC, appended, born, object_of, stretch
from tests.shared_store.postgresql_server import PostgresqlServer

Story = Callable[[PostgresqlStore], Awaitable[None]]


def tell(url: str, story: Story) -> None:
    async def told() -> None:
        store = PostgresqlStore(url)
        try:
            await story(store)
        finally:
            await store.close()

    asyncio.run(told())


async def commit_as_before(
    store: PostgresqlStore, who: Incarnation, object_id: int, data: bytes, log: OwnedLog, run: Run
) -> None:
    """As nodes did up to the fourth version, over the connections that they have."""
    query = (
        "SELECT * FROM commit_object($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,"
        " $19)"
    )
    change = LogChange(log.log_id, log.owner_epoch, run.base_offset, (run,))
    (row,) = await store._commits.ask(query, who.number, who.node_id, object_id, data, *_columns([change])[:-1])
    assert row["others"] == []


def test_two_clusters_lie_in_two_schemas_of_one_database(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(store: PostgresqlStore) -> None:
        other = PostgresqlStore(postgresql.url(f"{schema}_other"))
        try:
            for one in (store, other):
                await one.open()
            assert await store.cluster_id("first", "drawn") == "first"
            assert await other.cluster_id("second", "drawn") == "second"
            assert await store.cluster_id(None, "drawn") == "first"
        finally:
            await other.close()

    tell(postgresql.url(schema), story)


def test_without_a_name_it_is_the_schema_tallystick(postgresql: PostgresqlServer) -> None:
    async def story(store: PostgresqlStore) -> None:
        await store.open()
        found = await postgresql.sql("SELECT to_regclass('tallystick.run')::text AS it")
        assert [row["it"] for row in found] == ["tallystick.run"]

    tell(f"postgresql://postgres@{postgresql.host}/postgres?application_name=tallystick", story)


@pytest.mark.parametrize("name", ["", "Upper", "a-b", "a;b", "ä", "1a"])
def test_a_schema_has_a_plain_name(name: str) -> None:
    with pytest.raises(StoreRefused, match="is no name for a schema"):
        PostgresqlStore(f"postgresql://127.0.0.1/postgres?schema={name}")


def test_nodes_that_start_together_make_the_tables_once(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(store: PostgresqlStore) -> None:
        others = [PostgresqlStore(postgresql.url(schema)) for _ in range(5)]
        try:
            await asyncio.gather(*(one.open() for one in (store, *others)))
        finally:
            for one in others:
                await one.close()
        version = await postgresql.sql("SELECT version FROM schema_version", schema=schema)
        assert [row["version"] for row in version] == [len(MIGRATIONS)]

    tell(postgresql.url(schema), story)


def test_a_later_version_is_refused_and_left_as_it_is(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(store: PostgresqlStore) -> None:
        await store.open()
        await postgresql.sql("UPDATE schema_version SET version = 99", schema=schema)
        with pytest.raises(StoreRefused, match=f"schema {schema} has version 99, of a later Tallystick"):
            await store.open()
        version = await postgresql.sql("SELECT version FROM schema_version", schema=schema)
        assert [row["version"] for row in version] == [99]

    tell(postgresql.url(schema), story)


def test_an_older_version_is_upgraded_while_a_node_serves(
    postgresql: PostgresqlServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was there is lost, and who lives goes on, over the connections that it has."""

    async def story(store: PostgresqlStore) -> None:
        with monkeypatch.context() as older:
            older.setattr(migration, "MIGRATIONS", MIGRATIONS[:1])
            await store.open()
        version = await postgresql.sql("SELECT version FROM schema_version", schema=schema)
        assert [row["version"] for row in version] == [1]
        await postgresql.sql("UPDATE cluster SET cluster_id = 'first'", schema=schema)
        begin = "SELECT mine FROM begin_life($1, 0)"
        await postgresql.sql(begin, 2, schema=schema)
        who = Incarnation(1, (await postgresql.sql(begin, 1, schema=schema))[0]["mine"])
        log = await store.claim(who, TOPIC, 0, None)
        await commit_as_before(store, who, object_of(who, 1), b"0123456789", log, stretch(0, 2))
        await store.heartbeat(who)

        upgraded = PostgresqlStore(postgresql.url(schema))
        try:
            await upgraded.open()
            version = await postgresql.sql("SELECT version FROM schema_version", schema=schema)
            assert [row["version"] for row in version] == [len(MIGRATIONS)]
            assert await upgraded.cluster_id(None, "drawn") == "first"
            await store.heartbeat(who)
            await commit_as_before(store, who, object_of(who, 2), b"01234", log, stretch(2, size=5))
            with pytest.raises(asyncpg.UndefinedFunctionError):  # It would end the lives of all who live by now.
                await postgresql.sql(begin, 3, schema=schema)
            beside = await upgraded.join(2, b"beside")
            assert [(one.who, one.about) for one in await upgraded.members()] == [(who, b""), (beside, b"beside")]
            assert await upgraded.look(beside, TOPIC, 0, with_kept=True) == FoundLog(who, replace(log, next_offset=3))
            assert await upgraded.read(await upgraded.runs(log.log_id, 0, 10)) == [b"0123456789", b"01234"]
        finally:
            await upgraded.close()

    tell(postgresql.url(schema), story)


def test_the_version_before_is_upgraded_while_its_nodes_look_at_logs(
    postgresql: PostgresqlServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ask as they did, over the connections that they have."""
    as_before = "SELECT owner_node, (held).next_offset FROM look_at_log($1, $2, $3, 0)"

    async def story(store: PostgresqlStore) -> None:
        with monkeypatch.context() as older:
            older.setattr(migration, "MIGRATIONS", MIGRATIONS[:2])
            await store.open()
        who = Incarnation(1, (await postgresql.sql("SELECT join_others(1, '') AS mine", schema=schema))[0]["mine"])
        log = await store.claim(who, TOPIC, 0, None)
        await commit_as_before(store, who, object_of(who, 1), b"0123456789", log, stretch(0, 2))
        upgraded = PostgresqlStore(postgresql.url(schema))
        try:
            for _ in range(2):
                (found,) = await postgresql.sql(as_before, who.number, 1, TOPIC, schema=schema)
                assert tuple(found.values()) == (1, 2)
                await upgraded.open()
            assert await upgraded.look(who, TOPIC, 0, with_kept=True) == FoundLog(who, replace(log, next_offset=2))
        finally:
            await upgraded.close()

    tell(postgresql.url(schema), story)


def test_the_fourth_version_is_upgraded_while_its_nodes_commit(
    postgresql: PostgresqlServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they commit has no checksum of heads, in the database and in a bucket; what the new ones commit has."""

    async def story(store: PostgresqlStore) -> None:
        with monkeypatch.context() as older:
            older.setattr(migration, "MIGRATIONS", MIGRATIONS[:4])
            await store.open()
        who = await born(store)
        log = await store.claim(who, TOPIC, 0, None)
        await commit_as_before(store, who, object_of(who, 1), b"0123456789", log, stretch(0, 2))
        upgraded = PostgresqlStore(postgresql.url(schema))
        try:
            await upgraded.open()
            await commit_as_before(store, who, object_of(who, 2), b"0123456789", log, stretch(2))
            upload = _COMMIT_UPLOAD.replace(", $21", "")
            change = LogChange(log.log_id, log.owner_epoch, 3, (stretch(3),))
            mine = (object_of(who, 9), 10, who.number, who.node_id, object_of(who, 3))
            assert (await store._commits.ask(upload, *mine, *_columns([change])[:-1]))[0]["others"] == []
            summed = replace(stretch(4), heads_crc=(1 << 32) - 1)
            change = LogChange(log.log_id, log.owner_epoch, 4, (summed,))
            assert await upgraded.commit(who, object_of(who, 4), [b"0123456789"], [change]) == frozenset()
            found = [one.run for one in await upgraded.runs(log.log_id, 0, 10)]
            assert found == [stretch(0, 2), stretch(2), stretch(3), summed]
        finally:
            await upgraded.close()

    tell(postgresql.url(schema), story)


def test_tables_of_others_are_left_alone(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(store: PostgresqlStore) -> None:
        await postgresql.sql(f"CREATE SCHEMA {schema}")
        await postgresql.sql("CREATE TABLE run (of_somebody_else integer)", schema=schema)
        with pytest.raises(StoreRefused, match="already exists"):
            await store.open()
        tables = await postgresql.sql("SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace", schema)
        assert [row["relname"] for row in tables] == ["run"]

    tell(postgresql.url(schema), story)


def test_who_may_not_make_tables_may_use_those_that_are_there(postgresql: PostgresqlServer, schema: str) -> None:
    async def story(store: PostgresqlStore) -> None:
        await store.open()
        await postgresql.sql(f"CREATE ROLE {schema}_user LOGIN")
        await postgresql.sql(f"GRANT USAGE ON SCHEMA {schema} TO {schema}_user")
        for kind in ("TABLES", "SEQUENCES"):
            await postgresql.sql(f"GRANT ALL ON ALL {kind} IN SCHEMA {schema} TO {schema}_user")
        user = PostgresqlStore(postgresql.url(schema).replace("postgres@", f"{schema}_user@"))
        refused = PostgresqlStore(postgresql.url(f"{schema}_b").replace("postgres@", f"{schema}_user@"))
        try:
            await user.open()
            who = await born(user)
            log = await user.claim(who, TOPIC, 0, None)
            assert await user.commit(who, object_of(who, 1), [b"0123456789"], [appended(log, 1)]) == frozenset()
            with pytest.raises(StoreRefused, match="permission denied"):
                await refused.open()
        finally:
            await user.close()
            await refused.close()

    tell(postgresql.url(schema), story)


def test_what_a_role_was_given_makes_no_commit_unsafe(postgresql: PostgresqlServer, schema: str) -> None:
    """A commit that is cut off by a time limit, or does not wait for the disk, breaks a promise."""

    async def story(store: PostgresqlStore) -> None:
        await postgresql.sql(f"CREATE ROLE {schema}_user LOGIN SUPERUSER")
        for setting in (
            "statement_timeout = '1s'",
            "lock_timeout = '1s'",
            "idle_session_timeout = '1s'",
            "synchronous_commit = off",
            "client_min_messages = 'error'",
            "default_transaction_isolation = 'serializable'",
        ):
            await postgresql.sql(f"ALTER ROLE {schema}_user SET {setting}")
        user = PostgresqlStore(postgresql.url(schema).replace("postgres@", f"{schema}_user@"))
        try:
            await user.open()
            wanted = {
                "statement_timeout": "0",
                "lock_timeout": "0",
                "idle_session_timeout": "0",
                "synchronous_commit": "on",
                "client_min_messages": "notice",
                "transaction_isolation": "read committed",
            }
            asked = ", ".join(f"current_setting('{name}') AS {name}" for name in wanted)
            for pool in (user._commits, user._others):
                row = (await pool.ask(f"SELECT {asked}"))[0]
                assert {name: row[name] for name in wanted} == wanted
        finally:
            await user.close()

    tell(postgresql.url(schema), story)


def test_the_server_gives_up_a_node_whose_machine_is_gone(postgresql: PostgresqlServer, schema: str) -> None:
    """Nobody tells it, and by default it asks after two hours: until then what such nodes had is nobody else's."""

    async def story(store: PostgresqlStore) -> None:
        await store.open()
        for pool in (store._commits, store._heartbeats, store._readers, store._others):
            for name, value in {"keepalives_idle": "5", "keepalives_interval": "5", "user_timeout": "15000"}.items():
                row = (await pool.ask(f"SELECT setting FROM pg_settings WHERE name = 'tcp_{name}'"))[0]
                assert row["setting"] == value

    tell(postgresql.url(schema), story)


def test_without_asyncpg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: PostgresqlStore) -> None:
        with pytest.raises(StoreRefused, match=r"needs asyncpg: pip install 'tallystick\[postgresql\]'\."):
            await store.open()

    monkeypatch.setattr(connections, "asyncpg", None)
    tell("postgresql://127.0.0.1/postgres", story)


def test_a_server_that_is_not_there_is_unreachable_and_wrong_names_are_refused(
    postgresql: PostgresqlServer, schema: str
) -> None:
    async def nobody_there(store: PostgresqlStore) -> None:
        for asked in (store.open(), store.cluster_id(None, "drawn"), store.join(1, b""), store.tell()):
            with pytest.raises(StoreUnreachable):
                await asked
        await waits(store)

    async def no_database(store: PostgresqlStore) -> None:
        with pytest.raises(StoreRefused, match="does not exist"):
            await store.open()
        await waits(store)

    async def waits(store: PostgresqlStore) -> None:
        """For as long as it was asked to, though there is nobody to tell it anything; and nothing is said of it."""
        said: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        for _ in range(2):
            shorter = asyncio.create_task(asyncio.sleep(0.05))
            await asyncio.sleep(0)
            await store.wait_until_told(0.1)
            assert shorter.done()
        gc.collect()
        assert said == []

    async def no_tables(store: PostgresqlStore) -> None:
        with pytest.raises(StoreRefused, match="does not exist"):
            await store.join(1, b"")

    tell("postgresql://postgres@127.0.0.1:1/postgres", nobody_there)
    tell(f"postgresql://postgres@{postgresql.host}/nowhere", no_database)
    tell(postgresql.url(schema), no_tables)
