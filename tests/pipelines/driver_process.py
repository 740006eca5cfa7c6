"""The driver seen from the director: a process that is started, listened to and killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from spark_connector.pipelines.settings import Settings
from tallystick.process import PACKAGES

MODULE = "tests.pipelines.driver"


def _is_gone(pid: int) -> bool:
    """Whether a process that is no child of ours has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    with suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    return False


class DriverProcess:
    """One life of the driver. `hear` gets everything it reports, in a thread of its own."""

    def __init__(self, settings: Settings, hear: Callable[[dict[str, Any]], None]) -> None:
        self._log = Path(settings.folder) / "driver.log"
        self._hear = hear
        self.jvm: int | None = None
        self.ready = False
        self.stopped = False
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, settings.to_json()],
                cwd=PACKAGES,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # Spark's greeting.
            facts = json.loads(line)
            self.jvm = facts.get("jvm", self.jvm)
            self.ready = self.ready or "ready" in facts
            self.stopped = self.stopped or "stopped" in facts
            self._hear(facts)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def log_end(self) -> str:
        return self._log.read_bytes()[-3000:].decode(errors="replace") if self._log.exists() else ""

    def stop(self, seconds: float = 60.0) -> None:
        """Let the queries end in order, then the process."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("stop\n")
            self._process.stdin.flush()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.close()

    def kill_jvm(self) -> None:
        assert self.jvm is not None
        with suppress(ProcessLookupError):
            os.kill(self.jvm, signal.SIGKILL)
        self.close()

    def kill_program(self) -> None:
        """The Python program alone; the JVM has a while to notice by itself."""
        self._process.kill()
        deadline = time.monotonic() + 5.0
        while self.jvm is not None and not _is_gone(self.jvm) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.close()

    def close(self) -> None:
        """Whatever is left of it is killed."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self.jvm is not None and not _is_gone(self.jvm):
            with suppress(ProcessLookupError):
                os.kill(self.jvm, signal.SIGKILL)
        self._listener.join(10)
