"""How large a batch of records becomes, so that what is written is split before the log refuses it.

Estimates are never too small: a batch that fits by them fits into the log. A record that fits into no batch at all is
still taken as the first of its batch; the log refuses that one alone, and it does not hold up the rest.
"""

from coordinator.machine import Record
from protocol.records.batch import HEADER_SIZE

RECORD_OVERHEAD = 24
"""Lengths, deltas and attributes of one record, all varints at their longest that our batches can have."""
STEP_BYTES = 32 * 1024
"""How much one step of background work writes; more would keep the event loop for too long."""


def record_bytes(record: Record) -> int:
    """At most what a record takes up in a batch."""
    return RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")


def fits_alone(record: Record, max_batch_bytes: int, *, growth: int = 0) -> bool:
    """Whether a record makes a batch the log takes, even if it were larger by `growth`."""
    return HEADER_SIZE + record_bytes(record) + growth <= max_batch_bytes


class BatchRoom:
    """The records of one batch, as long as there is room for them."""

    def __init__(self, max_batch_bytes: int) -> None:
        self.records: list[Record] = []
        self._left = max_batch_bytes - HEADER_SIZE

    def add(self, *records: Record) -> bool:
        """Take records in, all or none; the first are always taken. False where there is no room for them."""
        size_bytes = sum(map(record_bytes, records))
        if self.records and size_bytes > self._left:
            return False
        self.records.extend(records)
        self._left -= size_bytes
        return True

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be added."""
        return self._left <= 0
