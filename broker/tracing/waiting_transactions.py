"""Transactions that have ended and wait to become traces: filled on the broker's loop, emptied by another thread.

Rule 1. The loop looks at the events of the one transaction, and appends: it waits for nobody, and wakes nobody.
Rule 2. What waits weighs no more than `MOST_BYTES`; what comes beyond is counted, and gone.
Rule 3. Each counter is written by one of the two threads only.
"""

from collections import deque
from typing import NamedTuple

from broker.journal.events import Changed, Event
from broker.journal.journal import ENDS, OfId

MOST_BYTES = 8 << 20


class Ended(NamedTuple):
    """What is noted of a transaction, oldest first."""

    transactional_id: str
    events: list[Event]
    is_whole: bool
    """False where older events of it were forgotten."""
    weight: int


class WaitingTransactions:
    """See the head of this file."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._waiting: deque[Ended] = deque()
        self._came = 0
        self._went = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, transactional_id: str, of: OfId) -> None:
        """On the loop, for `Journal.on_ended`: the last event of `of` says so."""
        if self._came - self._went >= self._most_bytes:
            self.dropped += 1
            return
        events: list[Event] = []
        weight, is_whole = 2 * len(transactional_id), False
        for event in reversed(of.events):
            if isinstance(event, Changed):
                if events and event.state in ENDS:
                    is_whole = True
                    break
                is_whole = is_whole or event.state == "Ongoing"
            events.append(event)
            weight += event.weight
        events.reverse()
        self._came += weight
        self._waiting.append(Ended(transactional_id, events, is_whole, weight))

    def next(self) -> Ended:
        """On the other thread; there has to be one."""
        ended = self._waiting.popleft()
        self._went += ended.weight
        return ended
