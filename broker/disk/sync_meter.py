"""How often and how long logs are synced, counted for whoever watches the broker."""

import threading
from collections.abc import Callable, Sequence

from broker.process.power_histogram import PowerHistogram
from storage.log import Flush


class SyncMeter:
    """Of one group commit. `clock` gives nanoseconds and never goes back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.cycles = PowerHistogram()
        """From the moment that a cycle begins until all of it is published."""
        self.syncs = PowerHistogram()
        """Each log's part of a cycle."""
        self._lock = threading.Lock()

    def cycle_ended(self, began_ns: int) -> None:
        """Called on the loop."""
        self.cycles.add(self.clock() - began_ns)

    def run_each(self, flushes: Sequence[Flush]) -> None:
        """Called in the threads of syncs."""
        for flush in flushes:
            began = self.clock()
            flush.run()
            with self._lock:
                self.syncs.add(self.clock() - began)
