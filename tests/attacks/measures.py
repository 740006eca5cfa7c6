"""What a broker's process holds while it is attacked: memory, descriptors, sockets; read from outside."""

import os
import re
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_S = 0.02
STALL_LINE_S = 20.0
_STALLS = re.compile(rb"took too long over_ms=\d+ turns=(\d+) over_100_ms=(\d+) worst_ms=(\d+) at=\S+ ran=(.*)")
MEGABYTE = 1 << 20


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def descriptors(pid: int) -> tuple[int, int]:
    """(all descriptors, sockets among them)"""
    count = sockets = 0
    with suppress(FileNotFoundError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                sockets += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
                count += 1
    return count, sockets


@dataclass(frozen=True)
class Stalls:
    """What the broker's own monitor has counted since its start."""

    turns: int = 0
    over_100_ms: int = 0
    worst_ms: int = 0
    ran: str = ""
    """In the worst turn."""


def stalls_of(pid: int, log: Path) -> Stalls:
    """Request the monitor's count, and read the line that it writes."""
    size = log.stat().st_size
    os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + STALL_LINE_S
    while time.monotonic() < deadline:
        with log.open("rb") as source:
            source.seek(size)
            if lines := _STALLS.findall(source.read()):
                *counts, ran = lines[-1]
                return Stalls(*map(int, counts), ran.decode(errors="replace").strip('"'))
        time.sleep(0.01)
    return Stalls()


class Watch:
    """Looks at a process every now and then, from a thread, and keeps the largest of what it saw."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.before_mb = self.peak_mb = resident_mb(pid)
        self.before_descriptors, self.before_sockets = descriptors(pid)
        self.peak_descriptors = self.before_descriptors
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                self.peak_mb = max(self.peak_mb, resident_mb(self._pid))
                self.peak_descriptors = max(self.peak_descriptors, descriptors(self._pid)[0])
            except (OSError, ValueError, IndexError):
                return
