"""What lies between a node and its PostgreSQL: poolers, which are refused, and TLS."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.shared.patience import Patience
from broker.shared.postgresql import PostgresqlStore
from storage.shared.store import StoreRefused
from tallystick.certificates import make_for_development
from tests.shared_store import pgbouncer
from tests.shared_store.pgbouncer import PgBouncer
from tests.shared_store.postgresql_server import PostgresqlServer, running_server


async def reached(url: str) -> bool:
    """Whether the way there is encrypted, as the server sees it. It may be refused: at once, or at the next try, for a
    server that refuses may end the connection before what it says of that is read."""
    store = PostgresqlStore(url)
    patience = Patience("the test waits")
    try:
        await patience.until_reached(store.open)
        await store.heartbeat(await store.join(1, b""))
        row = await store._row("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert row is not None, "it is connected"
        return bool(row["ssl"])
    finally:
        await store.close()


@pytest.mark.skipif(pgbouncer.why_not() is not None, reason=str(pgbouncer.why_not()))
@pytest.mark.parametrize("ignored", ["", pgbouncer.OURS], ids=["told nothing", "told to ignore settings"])
@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_a_pooler_is_refused_however_it_is_set_up(
    postgresql: PostgresqlServer, schema: str, mode: str, ignored: str
) -> None:
    """Nothing has happened, where settings are thrown away neither. Beside it the database is reached."""
    between = PgBouncer(postgresql, mode=mode, ignored=ignored)
    try:
        for _ in range(2):
            with pytest.raises(StoreRefused, match=r"A pooler \(PgBouncer, for one\) stands between"):
                asyncio.run(reached(postgresql.url(schema).replace(postgresql.host, between.host)))
    finally:
        between.close()
    made = "SELECT FROM pg_namespace WHERE nspname = $1"
    assert asyncio.run(postgresql.sql(made, schema)) == []
    asyncio.run(reached(postgresql.url(schema)))
    assert len(asyncio.run(postgresql.sql(made, schema))) == 1


# -- TLS ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of them, `its` and `other`, and what they vouched for."""
    folder = tmp_path_factory.mktemp("authorities")
    for name in ("its", "other"):
        make_for_development(folder / name, hosts=["127.0.0.1"], clients=["postgres", "somebody"], days=2)
    return folder


@pytest.fixture(scope="module")
def with_tls(authorities: Path) -> Iterator[PostgresqlServer]:
    """A server that wants certificates of the role `postgres`, where TLS is spoken, and nothing where it is not."""
    with running_server() as server:
        if not asyncio.run(server.sql("SELECT FROM pg_settings WHERE name = 'ssl_library' AND setting <> ''")):
            pytest.skip("this PostgreSQL was built without TLS")
        data = Path(asyncio.run(server.sql("SHOW data_directory"))[0]["data_directory"])
        for name in ("server.pem", "ca.pem"):
            shutil.copy(authorities / "its" / name, data / name)
            os.chown(data / name, data.stat().st_uid, data.stat().st_gid)
            (data / name).chmod(0o600)
        rules = data / "pg_hba.conf"
        rules.write_text("hostssl all all 127.0.0.1/32 cert\nhostnossl all all 127.0.0.1/32 trust\n")
        for name, value in {"ca": "ca", "cert": "server", "key": "server"}.items():
            asyncio.run(server.sql(f"ALTER SYSTEM SET ssl_{name}_file = '{value}.pem'"))
        asyncio.run(server.sql("ALTER SYSTEM SET ssl = on"))
        server.stop(signal.SIGINT)
        asyncio.run(server.start())
        yield server


def shown(authorities: Path, authority: str, name: str) -> str:
    return f"&sslcert={authorities}/{authority}/{name}.pem&sslkey={authorities}/{authority}/{name}.pem"


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_database_is_reached_over_tls(with_tls: PostgresqlServer, authorities: Path, mode: str, schema: str) -> None:
    said = f"&sslmode={mode}&sslrootcert={authorities}/its/ca.pem{shown(authorities, 'its', 'postgres')}"
    assert asyncio.run(reached(with_tls.url(schema) + said)) is True
    assert asyncio.run(reached(f"{with_tls.url(schema)}&sslmode=disable")) is False


@pytest.mark.parametrize(
    ("trusted", "showing", "said"),
    [
        ("other", "its/postgres", "certificate of the database is refused .*certificate in certificate chain"),
        ("its", "other/postgres", "refuses the certificate of this node .*UNKNOWN_CA"),
        ("its", "its/somebody", 'certificate authentication failed for user "postgres"'),
        ("its", "", "connection requires a valid client certificate"),
        ("none", "its/postgres", "^sslrootcert in the address of the database: there is no file '.*/none/ca.pem'"),
        ("its", "its/nobody", "^sslcert in the address of the database: there is no file '.*/its/nobody.pem'"),
    ],
)
def test_who_is_not_trusted_is_refused_in_a_sentence(
    with_tls: PostgresqlServer, authorities: Path, schema: str, trusted: str, showing: str, said: str
) -> None:
    """Each would be so the next time. A node does not wait for it."""
    address = f"{with_tls.url(schema)}&sslmode=verify-full&sslrootcert={authorities}/{trusted}/ca.pem"
    certificate = shown(authorities, *showing.split("/")) if showing else ""
    with pytest.raises(StoreRefused, match=said):
        asyncio.run(reached(address + certificate))


def test_a_certificate_of_another_host_is_refused(with_tls: PostgresqlServer, authorities: Path, schema: str) -> None:
    its = f"&sslmode=verify-full&sslrootcert={authorities}/its/ca.pem{shown(authorities, 'its', 'postgres')}"
    with pytest.raises(StoreRefused, match=r"certificate of the database is refused .*not valid for 'localhost'"):
        asyncio.run(reached(with_tls.url(schema).replace("127.0.0.1", "localhost") + its))


def test_a_file_that_is_no_certificate_is_refused(
    with_tls: PostgresqlServer, authorities: Path, schema: str, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("none\n")
    with pytest.raises(StoreRefused, match="names as sslrootcert, sslcert or sslkey cannot be used"):
        asyncio.run(reached(f"{with_tls.url(schema)}&sslmode=verify-full&sslrootcert={tmp_path}/ca.pem"))
    key = f"&sslcert={authorities}/its/postgres.pem&sslkey={authorities}/its/somebody.pem"
    with pytest.raises(StoreRefused, match="names as sslrootcert, sslcert or sslkey cannot be used"):
        asyncio.run(reached(f"{with_tls.url(schema)}&sslmode=require{key}"))


def test_a_database_without_tls_is_refused_where_it_is_wanted(postgresql: PostgresqlServer, schema: str) -> None:
    with pytest.raises(StoreRefused, match="The database speaks no TLS"):
        asyncio.run(reached(f"{postgresql.url(schema)}&sslmode=require"))
