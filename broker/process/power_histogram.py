"""Counting durations for whoever watches the broker, at next to no cost.

A bucket for each power of two of nanoseconds: which one it is, a number's bits say. What is between two powers is not
told apart; a duration is known to half of itself.
"""

import math
from collections.abc import Sequence

BUCKETS = 48
"""The last one begins at 39 hours."""
FIRST, LAST = 14, 36
"""Those that are told apart: from 16 µs to 69 s. What is shorter or longer is told with the first and in all."""


class PowerHistogram:
    """Written by one thread. Where it counts in every request, what `add` does is written out there."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_ns = 0

    def add(self, duration_ns: int) -> None:
        self.counts[duration_ns.bit_length()] += 1
        self.sum_ns += duration_ns


def bounds_s() -> list[float]:
    """The upper bounds of the buckets that are told, in seconds."""
    return [(1 << bits) / 1e9 for bits in range(FIRST, LAST + 1)]


def cumulative(counts: Sequence[int]) -> list[int]:
    """How many were at most as long as each of `bounds_s`, and how many there were."""
    told, total = [], 0
    for bits, count in enumerate(counts):
        total += count
        if FIRST <= bits <= LAST:
            told.append(total)
    return [*told, total]


def quantile_ns(counts: Sequence[int], share: float) -> float:
    """The duration that this share of them did not exceed, as far as the buckets say; NaN where there was none."""
    wanted, before = share * sum(counts), 0
    for bits, count in enumerate(counts):
        if count and before + count >= wanted:
            upper = 1 << bits
            lower = upper >> 1 if bits else 0
            return lower + (upper - lower) * (wanted - before) / count
        before += count
    return math.nan
