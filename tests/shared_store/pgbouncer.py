"""A PgBouncer of the tests' own in front of a server."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tallystick.postgresql_process import PATIENCE_S, _as_whom
from tests.harness.proxy import free_port
from tests.shared_store.postgresql_server import PostgresqlServer

OURS = "search_path, default_transaction_isolation, jit"
"""What a connection of ours begins with, and PgBouncer has to be told to ignore."""


def why_not() -> str | None:
    """Why none can run here, in a sentence; None where one can."""
    return None if _program() else "there is no pgbouncer (apt-get install pgbouncer)"


def _program() -> str | None:
    return shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


class PgBouncer:
    """It answers when it was made; `close` it."""

    def __init__(self, server: PostgresqlServer, *, mode: str, ignored: str = "") -> None:
        self.host = f"127.0.0.1:{free_port()}"
        self._folder = Path(tempfile.mkdtemp(prefix="tallystick-pgbouncer-"))
        users, settings = self._folder / "users", self._folder / "settings"
        users.write_text('"postgres" ""\n')
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.host.rpartition(':')[2]}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n"
            f"pool_mode = {mode}\nignore_startup_parameters = {ignored}\n"
        )
        for path in (self._folder, users, settings):
            path.chmod(0o755)
        program = _program()
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-q", str(settings)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **_as_whom(),
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, "pgbouncer does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        host, _, port = self.host.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)
        shutil.rmtree(self._folder, ignore_errors=True)
