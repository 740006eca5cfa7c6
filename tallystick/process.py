"""A broker in a process of its own, to be killed and started again by pid.

The demo and the tests stand on it. It starts the documented command line, waits for the ready file, and keeps port
and data folder over restarts; it knows nothing of what the broker does.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tallystick.control import BrokerControl

PACKAGES = Path(__file__).resolve().parents[1]
"""The folder that holds the `tallystick` package; the broker is started from it, wherever the caller is."""


class BrokerFailed(Exception):
    """The broker's process ended, or did not serve in time. Carries the end of its log."""


class BrokerProcess:
    """One `tallystick serve`. Not started by the constructor; `close` is safe at any time."""

    def __init__(
        self, folder: Path, *, options: Sequence[str] = (), port: int = 0, start_seconds: float = 30.0
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.options = list(options)
        self.host = "127.0.0.1"
        self.port = port
        self.prefix: list[str] = []
        """What its command line begins with, such as `nsenter`; it is to become the broker."""
        self.start_seconds = start_seconds
        self.is_controlled = False
        """Whether the next start hands down a socket, on which `control` asks the broker to fail."""
        self.control: BrokerControl | None = None
        """Of the process that runs, if it is."""
        self.has_http = False
        """Whether the next start has an HTTP side; its port is kept, too."""
        self.http_url = ""
        self.has_data = True
        """Whether it is told where its data is to be."""
        self.has_tls = False
        """Whether its one listener speaks TLS; its keys are among the `options` then."""
        self.environment: dict[str, str] = {}
        """Variables of the next start, beside our own."""
        self.bootstrap = ""
        self.starts = 0
        self._is_frozen = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "BrokerProcess":
        """Start it and wait until it serves. The first start picks the port, later ones keep it."""
        assert not self.running
        self._is_frozen = False
        self.folder.mkdir(parents=True, exist_ok=True)
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self._http_file.unlink(missing_ok=True)
        self._hang_up()
        command = self._command(ready)
        ours, theirs = socket.socketpair() if self.is_controlled else (None, None)
        if theirs is not None:
            command += ["--control-fd", str(theirs.fileno())]
        with self.log.open("ab") as log, theirs or contextlib.nullcontext():
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                cwd=PACKAGES,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                pass_fds=[] if theirs is None else [theirs.fileno()],
                env={**os.environ, **self.environment},
                # Ctrl-C is for the tests, which then end the broker; in a debugger it is for the debugger alone.
                process_group=0 if self.is_controlled else None,
            )
        self.control = None if ours is None else BrokerControl(ours)
        self.starts += 1
        self.bootstrap = self._wait_until_ready(ready)
        self.port = int(self.bootstrap.split(",")[0].rsplit(":", 1)[1])
        self.http_url = self._http_file.read_text().strip() if self._http_file.exists() else ""
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, *, seconds: float = 20.0) -> int:
        """SIGTERM; the exit status. Kills what does not stop in time, and says so."""
        assert self._process is not None
        self._process.terminate()
        self.thaw()  # one that stands still would hear of it only then
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"did not stop within {seconds} s of SIGTERM\n{self.log_end()}") from None

    def freeze(self) -> None:
        self._is_frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._is_frozen = False
        self._signal(signal.SIGCONT)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """No thread of it runs meanwhile, as after SIGKILL. One that was frozen stays so; one may have ended."""
        if not self.running or self._is_frozen or self._is_stopped(os.WNOHANG):
            if self.running:
                self._is_stopped()  # SIGSTOP may be under way
            yield
            return
        self.freeze()
        try:
            self._is_stopped()
            yield
        finally:
            self.thaw()

    def _is_stopped(self, at_once: int = 0) -> bool:
        """Waits until it is stopped or has ended, unless `at_once`; leaves its status for others to ask."""
        return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | at_once) is not None

    def _signal(self, which: signal.Signals) -> None:
        """Nothing where it has ended: its pid may be another one's by now."""
        assert self._process is not None, "not started"
        self._process.send_signal(which)

    def close(self) -> None:
        self.kill()
        self._hang_up()

    def _hang_up(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control = None

    def log_end(self, size_bytes: int = 4000) -> str:
        return self.log.read_bytes()[-size_bytes:].decode(errors="replace") if self.log.exists() else ""

    @property
    def _http_file(self) -> Path:
        return self.folder / "ready.http"

    def _command(self, ready: Path) -> list[str]:
        at = ["--host", self.host, "--port", str(self.port)]
        if self.has_tls:
            at = ["--listeners", f"SSL://{self.host}:{self.port}"]
        where = [*(["--data-dir", str(self.data)] if self.has_data else []), *at]
        if self.has_http:
            where += ["--http", f"127.0.0.1:{self.http_url.rpartition(':')[2] or 0}"]
            where += ["--http-control"] if self.is_controlled else []
        command = [*self.prefix, sys.executable, "-m", "tallystick", "serve", *where, "--ready-file", str(ready)]
        return [*command, *self.options]

    def _wait_until_ready(self, ready: Path) -> str:
        assert self._process is not None
        deadline = time.monotonic() + self.start_seconds
        while time.monotonic() < deadline:
            if ready.exists():
                return ready.read_text().strip()
            if self._process.poll() is not None:
                raise BrokerFailed(f"ended with status {self._process.returncode} before it served\n{self.log_end()}")
            time.sleep(0.005)
        self.kill()
        raise BrokerFailed(f"did not serve within {self.start_seconds} s\n{self.log_end()}")
