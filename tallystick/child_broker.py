"""A broker as a child process of a Python program.

    with tallystick.Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

The broker runs in a process of its own; nothing of it is imported here. It listens on a free port, which it keeps
across `restart`, and is stopped when the block ends or the program does.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType

from tallystick.startup_guard import server_command, server_environment

POLL_S = 0.005
STOP_S = 30.0


class BrokerFailed(Exception):
    """The broker did not start, or did not stop; with the end of what it wrote."""


class Broker:
    """One broker process. Without `data_dir` its data lives in a temporary folder and goes with it."""

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        durability: str = "fsync",
        in_memory: bool = False,
        config: Mapping[str, object] | None = None,
        log_level: str = "info",
        start_timeout_s: float = 30.0,
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="tallystick-")
        self.data_dir = os.fspath(data_dir) if data_dir is not None else os.path.join(self._folder, "data")
        self.log_path = os.path.join(self._folder, "broker.log")
        self.host, self.port = host, port
        self._durability, self._in_memory = durability, in_memory
        self._config = dict(config or {})
        self._log_level = log_level
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    # ------------------------------------------------------------------ life

    def start(self) -> "Broker":
        """Start it and return once it serves requests. Raises `BrokerFailed`."""
        assert self._process is None, "the broker is already running"
        ready_file = os.path.join(self._folder, "ready")
        if os.path.exists(ready_file):
            os.unlink(ready_file)
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own server, no shell
                server_command(self._arguments(ready_file)),
                env=server_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready(ready_file)
        with open(ready_file, encoding="ascii") as source:
            self.port = int(source.read().strip().rpartition(":")[2])
        return self

    def stop(self) -> int:
        """SIGTERM, and wait for the ordered shutdown; returns the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a crash of the process does."""
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> "Broker":
        """Stop (or kill) it and start it again on the same port and data."""
        if self._process is not None:
            self._end(signal.SIGKILL if kill else signal.SIGTERM)
        return self.start()

    def close(self) -> None:
        """Stop it and delete what was temporary. Safe to call twice."""
        if self._process is not None:
            self._end(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> "Broker":
        return self.start() if self._process is None else self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ what one wants to know

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The running process."""
        assert self._process is not None, "the broker is not running"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Everything it has written so far."""
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as source:
                return source.read()
        except OSError:
            return ""

    # ------------------------------------------------------------------ details

    def _arguments(self, ready_file: str) -> list[str]:
        arguments = ["--host", self.host, "--port", str(self.port), "--durability", self._durability]
        arguments += ["--in-memory"] if self._in_memory else ["--data-dir", self.data_dir]
        arguments += ["--ready-file", ready_file, "--log-level", self._log_level]
        for key, value in self._config.items():
            arguments += ["--set", f"{key}={value}"]
        return arguments

    def _wait_until_ready(self, ready_file: str) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not os.path.exists(ready_file):
            if self.process.poll() is not None:
                status = self.process.returncode
                self._process = None
                raise BrokerFailed(f"the broker ended with status {status}: {self.log()[-2000:]}")
            if time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                raise BrokerFailed(f"not ready after {self._start_timeout_s} s: {self.log()[-2000:]}")
            time.sleep(POLL_S)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self.process, None
        if process.poll() is None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(f"did not stop within {STOP_S} s: {self.log()[-2000:]}") from None
