"""PostgreSQL servers of one's own: in temporary folders, on loopback, to be killed and promoted.

The demo and the tests stand on it. They sync as they would in earnest. As root they run as another user, for PostgreSQL
does not run as root.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
USERS = ("postgres", "nobody")
ENOUGH_BYTES = 1 << 30
PROGRAMS = ("initdb", "postgres", "pg_basebackup", "pg_dump", "psql")
STANDBY = "standby"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "deadlock_timeout": "200ms",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "50ms",
    "restart_after_crash": "on",
    # In its folder, so that who is killed leaves nothing behind.
    "dynamic_shared_memory_type": "mmap",
}


class PostgresqlFailed(Exception):
    """A server does not serve, or a program of PostgreSQL failed. Carries what it said."""


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
    memory = Path("/dev/shm")  # noqa: S108 - `mkdtemp` makes the folder in it
    if "TMPDIR" not in os.environ and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ENOUGH_BYTES:
        return memory
    return None


def _as_whom() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(_user() or "")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresqlProcess:
    """One server, which the constructor does not start; `close` it. `of` is another that it is to be a standby of.

    Its port is one that is free when it is started first, unless it is given. With `also_at` it listens at this
    address, too, and trusts whoever is in the networks of this machine.
    """

    def __init__(self, *, port: int = 0, also_at: str = "", of: "PostgresqlProcess | None" = None) -> None:
        self.port = port
        self._also_at = also_at
        self._scratch = Path(tempfile.mkdtemp(prefix="tallystick-postgresql-", dir=_place()))
        self._data = self._scratch / "data"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if os.geteuid() == 0:
                shutil.chown(self._scratch, _as_whom()["user"])
            self._make(of)
        except BaseException:
            self.close()
            raise

    def _make(self, of: "PostgresqlProcess | None") -> None:
        where = ["-D", str(self._data), "--no-sync"]
        if of is None:
            self.run("initdb", *where, "-U", "postgres", "--auth=trust", "--wal-segsize=1")
            if self._also_at:
                with (self._data / "pg_hba.conf").open("a") as rules:
                    rules.write("host all all samenet trust\n")
        else:
            place = f"host=127.0.0.1 port={of.port} user=postgres application_name={STANDBY}"
            self.run("pg_basebackup", *where, "-d", place, "-c", "fast", "-R")

    def run(self, program: str, *arguments: str, told: str = "") -> str:
        """One of PostgreSQL's programs: what it writes."""
        folder = _programs()
        assert folder is not None
        command = [str(folder / program), *arguments]
        done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs
            command, cwd="/", input=told, capture_output=True, text=True, check=False, env=_environment(), **_as_whom()
        )
        if done.returncode:
            raise PostgresqlFailed(f"{program}: {done.stderr}")
        written: str = done.stdout
        return written

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def reached(self) -> list[str]:
        """What its programs are told of it."""
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres"]

    def url(self, schema: str, *others: "PostgresqlProcess") -> str:
        hosts = ",".join(server.host for server in (self, *others))
        return f"postgresql://postgres@{hosts}/postgres?schema={schema}"

    def sql(self, query: str) -> str:
        return self.run("psql", *self.reached, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", query)

    def start(self) -> None:
        """It answers when this returns."""
        folder = _programs()
        assert folder is not None
        self.port = self.port or _free_port()
        settings = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._scratch)}
        if self._also_at:
            settings["listen_addresses"] += f",{self._also_at}"
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._scratch / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - PostgreSQL's own program
                [str(folder / "postgres"), "-D", str(self._data), *options],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                # Ctrl-C is for who started it, who then ends it.
                start_new_session=True,
                **_as_whom(),
            )
        self._wait_until("SELECT 1", "it does not answer")

    def _wait_until(self, query: str, what: str) -> None:
        """Until a query finds something."""
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(PostgresqlFailed):  # It does not answer yet.
                if self.sql(query):
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresqlFailed(f"{what}\n{(self._scratch / 'log').read_text()[-4000:]}")
            time.sleep(0.02)

    def follow_with(self, *, port: int = 0, also_at: str = "") -> "PostgresqlProcess":
        """A synchronous standby, which runs."""
        standby = PostgresqlProcess(port=port, also_at=also_at, of=self)
        try:
            standby.start()
            self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
            self.sql("SELECT pg_reload_conf()")
            self._wait_until(
                "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'", "the standby does not follow"
            )
        except BaseException:
            standby.close()
            raise
        return standby

    def promote(self) -> None:
        """A standby is the primary when this returns."""
        self.sql("SELECT pg_promote()")

    def stop(self, how: signal.Signals) -> None:
        """SIGINT is a stop in order, SIGQUIT none, SIGKILL that of a machine: no process of it goes on."""
        assert self._process is not None
        children = self.processes()[1:]
        self._process.send_signal(how)
        if how is not signal.SIGINT:
            for child in children:
                with contextlib.suppress(ProcessLookupError):  # It may end by itself in this very moment.
                    os.kill(child, signal.SIGKILL)
        self._process.wait(timeout=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while any(_parent_of(child) is not None for child in children):
            if time.monotonic() > deadline:
                raise PostgresqlFailed("processes of a server do not end")
            time.sleep(0.005)

    def processes(self) -> list[int]:
        """The first of them, and its children, which have none."""
        assert self._process is not None
        everybody = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
        return [self._process.pid, *(pid for pid in everybody if _parent_of(pid) == self._process.pid)]

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
            command = ["ipcrm", "-m", lines[6].split()[1]]
            subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a number


def _parent_of(pid: int) -> int | None:
    """None where it has ended, also where nobody has waited for it yet: an orphan's new parent may take its time."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(parent)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
