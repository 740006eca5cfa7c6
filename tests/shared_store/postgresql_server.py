"""A PostgreSQL of the tests' own (`tallystick.postgresql_process`), which they ask, and to which more happens."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import asyncpg
import pytest

from tallystick.postgresql_process import PATIENCE_S, PostgresqlProcess, why_not
from tests.harness.proxy import free_port

__all__ = ["PostgresqlServer", "running_server", "why_not"]


_of_forks: "PostgresqlServer | None" = None


@contextlib.contextmanager
def running_for_forks() -> Iterator[None]:
    """Whoever is forked meanwhile has this server where it would start one."""
    global _of_forks
    with running_server() as server:
        _of_forks = server
        try:
            yield
        finally:
            _of_forks = None


@contextlib.contextmanager
def running_server() -> Iterator["PostgresqlServer"]:
    """Skips, with the reason, where there can be none."""
    if _of_forks is not None:
        yield _of_forks
        return
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    server = PostgresqlServer()
    try:
        asyncio.run(server.start())
        yield server
    finally:
        server.close()


class PostgresqlServer:
    """One server; `close` it."""

    def __init__(self, process: PostgresqlProcess | None = None) -> None:
        self._process = process or PostgresqlProcess(port=free_port())
        self.port = self._process.port
        self.host = self._process.host

    def url(self, schema: str, *others: "PostgresqlServer") -> str:
        return self._process.url(schema, *(other._process for other in others))

    async def start(self) -> None:
        await asyncio.to_thread(self._process.start)

    async def connect(self, schema: str | None = None) -> Any:
        settings = {} if schema is None else {"search_path": schema}
        place: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": "postgres", "database": "postgres"}
        return await asyncpg.connect(**place, server_settings=settings, ssl=False)

    async def sql(self, query: str, *arguments: object, schema: str | None = None) -> list[Mapping[str, Any]]:
        connection = await self.connect(schema)
        try:
            found: list[Mapping[str, Any]] = await connection.fetch(query, *arguments)
            return found
        finally:
            connection.terminate()

    def make_database(self, user: str, password: str, name: str) -> None:
        """As the image of PostgreSQL does it when it is told of them."""

        async def make() -> None:
            await self.sql(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
            await self.sql(f"CREATE DATABASE {name} OWNER {user}")

        asyncio.run(make())

    def drop_database(self, user: str, name: str) -> None:
        """And who it was made for; nobody has to have left it."""

        async def drop() -> None:
            await self.sql(f"DROP DATABASE {name} WITH (FORCE)")
            await self.sql(f"DROP ROLE {user}")

        asyncio.run(drop())

    async def wait_until(self, query: str, *arguments: object, schema: str | None = None) -> None:
        """Until a query finds a row."""
        deadline = time.monotonic() + PATIENCE_S
        while not await self.sql(query, *arguments, schema=schema):
            assert time.monotonic() < deadline, f"it never came: {query}"
            await asyncio.sleep(0.01)

    def dump(self, schema: str) -> str:
        """What is in a schema at one moment, while it is in use."""
        return self._process.run("pg_dump", *self._process.reached, "--schema", schema)

    def restore(self, schema: str, dumped: str) -> None:
        """The schema is what it was; nobody uses it now."""
        asyncio.run(self.sql(f"DROP SCHEMA {schema} CASCADE"))
        self._process.run("psql", *self._process.reached, "-v", "ON_ERROR_STOP=1", "-q", "-1", told=dumped)

    async def follow_with(self, *, port: int = 0, also_at: str = "") -> "PostgresqlServer":
        """A synchronous standby, which runs."""
        follow = partial(self._process.follow_with, port=port or free_port(), also_at=also_at)
        return PostgresqlServer(await asyncio.to_thread(follow))

    async def promote(self) -> None:
        """A standby is the primary when this returns."""
        await asyncio.to_thread(self._process.promote)

    async def restart(self) -> None:
        """As after a loss of power: nothing is ended in order."""
        self.stop(signal.SIGQUIT)
        await self.start()

    def stop(self, how: signal.Signals) -> None:
        """SIGINT is a stop in order, SIGQUIT none, SIGKILL that of a machine: no process of it goes on."""
        self._process.stop(how)

    async def stop_sending(self) -> None:
        """What serves the standby stands still: it gets nothing any more."""
        for row in await self.sql("SELECT pid FROM pg_stat_replication"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(row["pid"]), signal.SIGSTOP)

    def pause(self) -> None:
        """Every process of it stands still."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._process.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        self._process.close()
