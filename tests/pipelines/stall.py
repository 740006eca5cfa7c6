"""How far readers of committed records are held back: the high watermark less the last stable offset, over time.

An open micro-batch holds its readers back, and one that died holds them until its query is started again. That is
what exactly-once costs a reader, and it is measured here by one.
"""

import threading
import time
from typing import NamedTuple

from tests.pipelines.reading import Ends

EVERY_SECONDS = 0.05


class Sample(NamedTuple):
    """One look."""

    at_s: float
    """Since the run began."""
    high: int
    """All offsets of the topic."""
    waiting: int
    """Those of them that readers of committed records do not get yet."""


class Sampler(threading.Thread):
    """Looks at a topic until it is closed. While the broker is away there is nothing to see."""

    def __init__(self, bootstrap: str, topic: str, began: float) -> None:
        super().__init__(name=f"sampler of {topic}", daemon=True)
        self._ends = Ends(bootstrap, topic)
        self._began = began
        self._over = threading.Event()
        self.samples: list[Sample] = []

    def run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            high, stable = self._ends.look(committed=False), self._ends.look(committed=True)
            if high is not None and stable is not None:
                all_, visible = sum(high.values()), sum(stable.values())
                self.samples.append(Sample(time.monotonic() - self._began, all_, max(0, all_ - visible)))

    @property
    def high_watermark(self) -> int:
        """As it was seen last."""
        return self.samples[-1].high if self.samples else 0

    def close(self) -> None:
        self._over.set()
        self.join(10)


def longest_stall_s(samples: list[Sample]) -> float:
    """The longest time in which something waited at every look and nothing became visible."""
    longest = 0.0
    since: float | None = None
    visible = -1
    for sample in samples:
        if sample.waiting == 0:
            since = None
        elif since is None or sample.high - sample.waiting > visible:
            since = sample.at_s
        else:
            longest = max(longest, sample.at_s - since)
        visible = sample.high - sample.waiting
    return longest
