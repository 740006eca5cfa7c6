"""PostgreSQL servers of our own: in temporary folders, on free ports of loopback, always ended.

They sync as they would in earnest. As root they run as another user, for PostgreSQL does not run as root.
"""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from tests.harness.proxy import free_port

PATIENCE_S = 60.0
USERS = ("postgres", "nobody")
ENOUGH_BYTES = 1 << 30
PROGRAMS = ("initdb", "postgres", "pg_basebackup", "pg_dump", "psql")


def why_not() -> str | None:
    """Why no server can run here, in a sentence; None where one can."""
    if _programs() is None:
        return f"there is no PostgreSQL: {', '.join(PROGRAMS)} are wanted (apt-get install postgresql)"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return None


def _programs() -> Path | None:
    """The folder of the newest of them."""
    found = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)
    for folder in [*([Path(found).parent] if found else []), *debian]:
        if all((folder / program).exists() for program in PROGRAMS):
            return folder
    return None


def _user() -> str | None:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((user for user in USERS if user in known), None)


def _place() -> Path | None:
    """Memory, where there is enough: servers sync all the time, and what is killed here is never the machine."""
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ENOUGH_BYTES:
        return memory
    return None


def _as_whom() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(_user() or "")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresqlServer:
    """One server; `close` it. `of` is another that it is to be a standby of."""

    def __init__(self, *, of: "PostgresqlServer | None" = None) -> None:
        self.port = free_port()
        self._scratch = Path(tempfile.mkdtemp(prefix="tallystick-postgresql-", dir=_place()))
        self._data = self._scratch / "data"
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self._scratch, _as_whom()["user"])
        if of is None:
            self._run("initdb", "-D", str(self._data), "-U", "postgres", "--auth=trust", "--wal-segsize=1", "--no-sync")
        else:
            place = f"host=127.0.0.1 port={of.port} user=postgres application_name=standby"
            self._run("pg_basebackup", "-D", str(self._data), "-d", place, "-c", "fast", "-R", "--no-sync")

    def _run(self, program: str, *arguments: str, told: str = "") -> str:
        folder = _programs()
        assert folder is not None
        command = [str(folder / program), *arguments]
        done = subprocess.run(
            command, cwd="/", input=told, capture_output=True, text=True, env=_environment(), **_as_whom()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _reached(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres"]

    def url(self, schema: str, *others: "PostgresqlServer") -> str:
        hosts = ",".join(server.host for server in (self, *others))
        return f"postgresql://postgres@{hosts}/postgres?schema={schema}"

    async def start(self) -> None:
        folder = _programs()
        assert folder is not None
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._scratch),
            "max_connections": "60",
            "shared_buffers": "32MB",
            "deadlock_timeout": "200ms",
            "wal_receiver_status_interval": "1s",
            "wal_retrieve_retry_interval": "50ms",
            "restart_after_crash": "on",
            # In its folder, so that who is killed leaves nothing behind.
            "dynamic_shared_memory_type": "mmap",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._scratch / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(folder / "postgres"), "-D", str(self._data), *options],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
                **_as_whom(),
            )
        await self._wait_until_ready()

    async def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                await self.sql("SELECT 1")
                return
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                assert self._process is not None
                assert self._process.poll() is None and time.monotonic() < deadline, (self._scratch / "log").read_text()
                await asyncio.sleep(0.02)

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

    async def wait_until(self, query: str, *arguments: object, schema: str | None = None) -> None:
        """Until a query finds a row."""
        deadline = time.monotonic() + PATIENCE_S
        while not await self.sql(query, *arguments, schema=schema):
            assert time.monotonic() < deadline, f"it never came: {query}"
            await asyncio.sleep(0.01)

    def dump(self, schema: str) -> str:
        """What is in a schema at one moment, while it is in use."""
        return self._run("pg_dump", *self._reached, "--schema", schema)

    def restore(self, schema: str, dumped: str) -> None:
        """The schema is what it was; nobody uses it now."""
        asyncio.run(self.sql(f"DROP SCHEMA {schema} CASCADE"))
        self._run("psql", *self._reached, "-v", "ON_ERROR_STOP=1", "-q", "-1", told=dumped)

    async def follow_with(self) -> "PostgresqlServer":
        """A synchronous standby, which runs."""
        standby = PostgresqlServer(of=self)
        await standby.start()
        await self.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        await self.sql("SELECT pg_reload_conf()")
        await self.wait_until("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        return standby

    async def promote(self) -> None:
        """A standby is the primary when this returns."""
        await self.sql("SELECT pg_promote()")

    async def restart(self) -> None:
        """As after a loss of power: nothing is ended in order."""
        self.stop(signal.SIGQUIT)
        await self.start()

    def stop(self, how: signal.Signals) -> None:
        """SIGINT is a stop in order, SIGQUIT none, SIGKILL that of a machine: no process of it goes on."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(how)
        if how is not signal.SIGINT:
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):  # It may end by itself in this very moment.
                    child.kill()
        self._process.wait(timeout=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while any(_runs(child) for child in children):
            assert time.monotonic() < deadline, "processes of the server do not end"
            time.sleep(0.005)

    async def stop_sending(self) -> None:
        """What serves the standby stands still: it gets nothing any more."""
        for row in await self.sql("SELECT pid FROM pg_stat_replication"):
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(int(row["pid"])).suspend()

    def pause(self) -> None:
        """Every process of it stands still."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        leader = psutil.Process(self._process.pid)
        for process in (leader, *leader.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop(signal.SIGKILL)
        self._free_shared_memory()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _free_shared_memory(self) -> None:
        """Who was killed leaves a segment of System V behind, which it has written down."""
        note = self._data / "postmaster.pid"
        lines = note.read_text().splitlines() if note.exists() else []
        if len(lines) > 6 and len(lines[6].split()) == 2:
            subprocess.run(["ipcrm", "-m", lines[6].split()[1]], capture_output=True, check=False)


def _runs(process: psutil.Process) -> bool:
    """Who has ended and was not waited for by whoever has to (an orphan's new parent may take its time) does not."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
