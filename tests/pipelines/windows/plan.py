"""Clicks in the order of their arrival, one in ten of them late by a known time, drawn from the seed.

Event time goes on by about a tenth of a second per click. Of the late ones some are within the watermark and are
counted, some are beyond it. Clicks of aborted transactions look like any other: counting one makes a count wrong.
"""

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

PARTITIONS = 4
PAGES = 20
ABORTED_SHARE = 0.05
LATE_SHARE = 0.1
PER_TRANSACTION = 500
BEGIN_MS = 1_700_000_000_000
STEP_MS = 200
LATEST_MS = 30 * 60_000
"""No click is later than this; the watermark allows for ten minutes."""
MINUTE_MS = 60_000


class Click(NamedTuple):
    """One event."""

    at_ms: int
    page: int
    user: int


def transactions(seed: int, size: int) -> Iterator[tuple[list[Click], bool]]:
    """Until `size` clicks are committed; the last click of all lies far ahead, so that every window closes."""
    draw = random.Random(f"{seed}/clicks")
    now_ms, committed, void = BEGIN_MS, 0, True
    while committed < size:
        each = PER_TRANSACTION if void else min(PER_TRANSACTION, size - committed)
        batch = []
        for _ in range(each):
            now_ms += draw.randrange(STEP_MS)
            late_ms = draw.randrange(LATEST_MS) if draw.random() < LATE_SHARE else 0
            batch.append(Click(now_ms - late_ms, draw.randrange(PAGES), draw.randrange(1000)))
        committed += 0 if void else each
        yield batch, void
        void = draw.random() < ABORTED_SHARE
    yield [Click(now_ms + 2 * LATEST_MS, PAGES, 0)], False


@cache
def last_ms(seed: int, size: int) -> int:
    """The time of the last click, which is ahead of all others."""
    at_ms = 0
    for batch, _ in transactions(seed, size):
        at_ms = batch[-1].at_ms
    return at_ms


def encode(click: Click) -> bytes:
    return json.dumps(click._asdict()).encode()


def decode(value: bytes) -> Click:
    return Click(**json.loads(value))
