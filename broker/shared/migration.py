"""The tables of `broker/shared/schema.py`, made or brought up to date."""

from broker.shared.connections import Connection
from broker.shared.schema import MIGRATIONS
from storage.shared.store import StoreRefused

OLDEST_SERVER = 150_000


async def migrate(connection: Connection, schema: str) -> None:
    """Everything in one transaction, one node after the other. Who finds it up to date needs no right to make tables.
    Raises `StoreRefused`."""
    server = (await connection.fetch("SELECT current_setting('server_version_num')::integer AS number"))[0]["number"]
    if server < OLDEST_SERVER:
        raise StoreRefused(f"The store needs PostgreSQL 15 or newer; this server has version {server // 10_000}.")
    async with connection.transaction():
        await connection.fetch("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"tallystick {schema}")
        version = await _version(connection)
        if version > len(MIGRATIONS):
            raise StoreRefused(
                f"The schema {schema} has version {version}, of a later Tallystick; this one knows {len(MIGRATIONS)}."
            )
        if version == 0:
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            await connection.execute("CREATE TABLE schema_version (version integer NOT NULL)")
            await connection.execute("INSERT INTO schema_version VALUES (0)")
        for script in MIGRATIONS[version:]:
            await connection.execute(script)
        if version < len(MIGRATIONS):
            await connection.fetch("UPDATE schema_version SET version = $1", len(MIGRATIONS))


async def _version(connection: Connection) -> int:
    """0 where there is nothing yet."""
    found = await connection.fetch("SELECT to_regclass(current_setting('search_path') || '.schema_version') AS it")
    if found[0]["it"] is None:
        return 0
    return int((await connection.fetch("SELECT version FROM schema_version"))[0]["version"])
