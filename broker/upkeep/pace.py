"""How long compaction waits so that it moves no more bytes in a second than it may."""

from collections.abc import Callable

LONGEST_WAIT_MS = 1_000
"""No longer at a time, so that a rate that is raised meanwhile takes effect soon."""


class Pace:
    """One stretch of work, begun now. Kafka's `Throttler`: the average counts, not each moment."""

    def __init__(self, clock_ms: Callable[[], int], bytes_per_second: Callable[[], float]) -> None:
        self._clock_ms = clock_ms
        self._bytes_per_second = bytes_per_second
        self._began_ms = clock_ms()

    def delay_ms(self, moved_bytes: int) -> int:
        """How long to wait now, after so many bytes in all."""
        due_ms = moved_bytes * 1000 / max(1.0, self._bytes_per_second())
        elapsed_ms = self._clock_ms() - self._began_ms
        return max(0, min(LONGEST_WAIT_MS, int(due_ms - elapsed_ms)))
