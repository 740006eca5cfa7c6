"""What was used lately: Kafka's rate over samples, and its token bucket (KIP-13, KIP-599).

Times are milliseconds of a clock that never goes back; they come as arguments.
"""

import math
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    """So many samples of such a length are looked at (`quota.window.num`, `quota.window.size.seconds`)."""

    count: int
    size_ms: int

    @property
    def all_ms(self) -> int:
        return self.count * self.size_ms


class _Sample:
    """What was used from `start_ms` on, `last_ms` being when something was used last."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int, value: float) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = value


class Rate:
    """How much was used in a second.

    A sample begins when something is used after the one before is full, so silence has none. What was used is divided
    by the time since the oldest sample began, and that counts as all windows but one and what is there of the last: a
    client that has just begun is not taken for a fast one. One more sample is kept than there are windows: the oldest
    may begin before the time that is looked at and reach into it.
    """

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        """The oldest first."""

    def record(self, windows: Windows, value: float, now_ms: int) -> None:
        samples = self._samples
        if samples:
            latest = samples[-1]
            if now_ms - latest.start_ms < windows.size_ms:
                latest.value += value
                latest.last_ms = now_ms
                return
        samples.append(_Sample(now_ms, value))
        if len(samples) > windows.count + 1:
            samples.popleft()

    def measure(self, windows: Windows, now_ms: int) -> tuple[float, int]:
        """(units in a second, milliseconds over which they were counted)."""
        samples, expired_ms = self._samples, now_ms - windows.all_ms
        while samples and samples[0].last_ms <= expired_ms:
            samples.popleft()
        elapsed_ms = now_ms - samples[0].start_ms if samples else 0
        full = elapsed_ms // windows.size_ms
        if full < windows.count - 1:
            elapsed_ms += (windows.count - 1 - full) * windows.size_ms
        elapsed_ms = max(elapsed_ms, 1)
        return sum([sample.value for sample in samples]) / (elapsed_ms / 1000), elapsed_ms

    def throttle_ms(self, windows: Windows, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the rate is `bound` again; 0 where it is not above it."""
        rate, counted_ms = self.measure(windows, now_ms)
        return rounded((rate - bound) / bound * counted_ms) if rate > bound else 0


class TokenBucket:
    """What may be used at once: it fills by `bound` in a second, up to what the windows hold, and may be overdrawn by
    the last one who takes."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = math.inf  # full, as soon as it is known how large it is
        self._filled_ms = 0

    def record(self, windows: Windows, bound: float, value: float, now_ms: int) -> None:
        self._tokens = min(_burst(windows, bound), self.tokens(windows, bound, now_ms) - value)

    def tokens(self, windows: Windows, bound: float, now_ms: int) -> float:
        """How many are there now."""
        filled = self._tokens + bound * (now_ms - self._filled_ms) / 1000
        self._tokens = min(_burst(windows, bound), filled)
        self._filled_ms = now_ms
        return self._tokens

    def throttle_ms(self, windows: Windows, bound: float, now_ms: int) -> int:
        """How long until what was overdrawn is there again."""
        tokens = self.tokens(windows, bound, now_ms)
        return rounded(-tokens / bound * 1000) if tokens < 0 else 0


def _burst(windows: Windows, bound: float) -> float:
    return windows.all_ms / 1000 * bound


def rounded(milliseconds: float) -> int:
    """As Kafka's: halves go up; what a response cannot hold is the most it can."""
    return math.floor(min(milliseconds, LONGEST_MS) + 0.5)


LONGEST_MS = (1 << 31) - 1
