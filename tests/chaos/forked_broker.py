"""A broker process that starts in a twentieth of a second: forked from one that has everything imported already.

It is the same program as `tallystick serve`, with a real data folder and real signals. Only its start is cheaper,
which is what a test at each of a hundred fault points needs.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["broker.__main__", "broker.faults.control", "broker.faults.answers", "uvloop"])
START_SECONDS = 60.0
LOGS_ARE_OPEN = "node logs are open"


class Died(Exception):
    """The broker ended though it was not stopped, or does not end; carries the end of its log."""


class ForkedBroker:
    """See the head of this file. `faults` arms fault points for one start; without a text there are none."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.bootstrap = ""
        self._ready = folder / "ready"
        self._settings = dict(settings)
        self._process: ForkServerProcess | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, faults: str = "on", **settings: str) -> bool:
        """Start it; False if it died (by a fault) before it served."""
        assert not self.running
        self._ready.unlink(missing_ok=True)
        wanted = self._settings | {name.replace("__", "."): value for name, value in settings.items()}
        arguments = ["--data-dir", str(self.data), "--ready-file", str(self._ready)]
        listeners = wanted.pop("listeners", "")
        arguments += ["--listeners", listeners] if listeners else ["--port", "0"]
        arguments += [part for name, value in wanted.items() for part in ("--set", f"{name}={value}")]
        self._process = CONTEXT.Process(target=serve, args=(arguments, faults, str(self.log)), daemon=True)
        self._process.start()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._ready.exists():
                self.bootstrap = self._ready.read_text().strip()
                return True
            if not self.running:
                return False
            time.sleep(0.002)
        raise Died(f"does not serve\n{self.log_end()}")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int:
        assert self._process is not None and self._process.pid is not None
        return self._process.pid

    @property
    def is_frozen(self) -> bool:
        return is_frozen(self.pid)

    def wait_until_dead(self, seconds: float = 30.0) -> int:
        """The exit status; -9 after a crash at a fault point."""
        assert self._process is not None
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise Died(f"still alive\n{self.log_end()}")
        return self._process.exitcode

    def wait_until_logs_are_open(self) -> None:
        """They are opened in the background of a start; an end before that is not one after which nothing is to be
        recovered. Of the first start only."""
        deadline = time.monotonic() + START_SECONDS
        while LOGS_ARE_OPEN not in self.log.read_text(errors="replace"):
            if not self.running or time.monotonic() > deadline:
                raise Died(f"does not open its logs\n{self.log_end()}")
            time.sleep(0.002)

    def stop(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        return self.wait_until_dead()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def log_end(self, size_bytes: int = 4000) -> str:
        return self.log.read_bytes()[-size_bytes:].decode(errors="replace") if self.log.exists() else ""

    @property
    def struck(self) -> list[str]:
        """The points at which faults struck, from the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line.split("point=")[1].split()[0] for line in lines if "a fault strikes" in line]


def is_frozen(pid: int) -> bool:
    """Whether a process stands still (SIGSTOP)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


def serve(arguments: list[str], faults: str, log: str) -> None:
    """What the forked process does."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    if faults:
        os.environ["TALLYSTICK_FAULTS"] = faults
    from broker.__main__ import main

    sys.exit(main(arguments))
