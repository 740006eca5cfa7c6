"""The address of a store: several hosts, what cannot be read, and a password that nobody is shown."""

import asyncio

import pytest

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.shared import connections
from broker.shared.connections import Address, connect
from broker.shared.engines import store_of
from coordinator.cluster.keys.config_keys import BROKER_KEYS
from storage.shared.store import StoreRefused, StoreUnreachable
from tests.shared_store.postgresql_server import PostgresqlServer


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@h:5432/d?schema=s&password=secret", "postgresql://h:5432/d"),
        ("postgresql://me:secret@h1:5432,h2:5433,h3/d", "postgresql://h1:5432,h2:5433,h3/d"),
        ("postgresql://me:sec@ret@h/d", "postgresql://h/d"),
        ("postgresql://me:sec/ret@h/d", "postgresql://h/d"),
        ("postgresql://me@[::1]:5432/d", "postgresql://[::1]:5432/d"),
        ("postgresql:///d?host=h", "postgresql:///d"),
    ],
)
def test_people_are_told_the_hosts_and_the_database(url: str, place: str) -> None:
    assert BrokerConfig({"tallystick.store": url}).place == place


@pytest.mark.parametrize(
    "url", ["mysql://me:secret@h/d", "host=h password=secret", "postgresql://me:secret@h/d?schema=A-b"]
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        store_of(BrokerConfig({"tallystick.store": url}))
    assert str(refused.value).startswith("tallystick.store: ") and "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@h:secret/d",
        "postgresql://me:secret/word@h/d",
        "postgresql://me@h:99999/d",
        "postgresql://me@h1,h2:65536/d",
    ],
)
def test_a_port_that_is_none_is_refused_and_not_said(url: str) -> None:
    pytest.importorskip("asyncpg")
    with pytest.raises(StoreRefused) as refused:
        asyncio.run(connect(Address(url)))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "each"),
    [
        ("postgresql://me@h1:5432,h2:5433,h3/d", ["me@h1:5432/d", "me@h2:5433/d", "me@h3/d"]),
        (
            "postgresql://me:a%2Cb@h1,[::1]:2/d?sslmode=disable",
            ["me:a%2Cb@h1/d?sslmode=disable", "me:a%2Cb@[::1]:2/d?sslmode=disable"],
        ),
        ("postgresql://h1,h2/d?port=1,2&schema=s", ["h1/d?port=1", "h2/d?port=2"]),
        ("postgresql://h1,h2/d?port=1", ["h1/d?port=1", "h2/d?port=1"]),
        ("postgresql://me@/d?host=h1,h2&port=1,2", ["me@/d?host=h1&port=1", "me@/d?host=h2&port=2"]),
        ("postgresql://h1,h2/d?port=1,2,3", ["h1,h2/d?port=1%2C2%2C3"]),
    ],
)
def test_each_host_has_an_address_of_its_own(url: str, each: list[str]) -> None:
    assert Address(url).urls == [f"postgresql://{one}" for one in each]


def test_behind_a_host_that_says_nothing_the_next_one_is_asked(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without power refuses nobody: who waited for it would not find the one that took its place. The one
    that answered is asked first from then on."""
    pytest.importorskip("asyncpg")
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT_S", 2.0)

    async def story() -> None:
        asked: list[asyncio.StreamWriter] = []
        async with await asyncio.start_server(lambda _, writer: asked.append(writer), "127.0.0.1", 0) as silent:
            port = silent.sockets[0].getsockname()[1]
            address = Address(f"postgresql://postgres@127.0.0.1:{port},{postgresql.host}/postgres?sslmode=disable")
            for _ in range(2):
                connection = await connect(address)
                assert [row["one"] for row in await connection.fetch("SELECT 1 AS one")] == [1]
                connection.terminate()
                assert len(asked) == 1
            with pytest.raises(StoreUnreachable, match="it does not answer"):
                await connect(Address(f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"))
            for writer in asked:
                writer.close()

    asyncio.run(story())


def test_a_host_that_is_no_database_does_not_hide_the_next_one(postgresql: PostgresqlServer) -> None:
    pytest.importorskip("asyncpg")

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def story() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as page:
            where = f"127.0.0.1:{page.sockets[0].getsockname()[1]}"
            connection = await connect(Address(f"postgresql://postgres@{where},{postgresql.host}/postgres"))
            connection.terminate()
            with pytest.raises(StoreUnreachable, match="What answers there is no PostgreSQL"):
                await connect(Address(f"postgresql://postgres@{where}/postgres"))
            with pytest.raises(StoreRefused, match="speaks no TLS"):
                await connect(Address(f"postgresql://postgres@{where}/postgres?sslmode=require"))

    asyncio.run(story())


def test_a_role_that_may_not_write_is_told_of_as_one(postgresql: PostgresqlServer, schema: str) -> None:
    pytest.importorskip("asyncpg")
    postgresql.make_database(schema, "secret", schema)
    asyncio.run(postgresql.sql(f"ALTER ROLE {schema} SET default_transaction_read_only = on"))
    with pytest.raises(StoreUnreachable, match=r"takes no writes: .* the role or the database is read-only"):
        asyncio.run(connect(Address(f"postgresql://{schema}:secret@{postgresql.host}/{schema}")))


def test_clients_that_ask_for_the_settings_are_not_shown_it() -> None:
    assert BROKER_KEYS["tallystick.store"].sensitive
