"""What the operating system says of a broker's process, and of the machine. Linux; elsewhere psutil knows."""

import os

import psutil


def cpu_seconds(pid: int) -> float:
    """User and system time of a process since it began."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def resident_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def shape() -> dict[str, int]:
    """Cores and memory, nothing that names the machine."""
    return {"cores": os.cpu_count() or 0, "memory_gb": round(psutil.virtual_memory().total / 2**30)}


def settle() -> None:
    """Put on the disk what others left in the page cache, or the next one's syncs pay for it."""
    os.sync()


def quantile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
