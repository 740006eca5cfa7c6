"""The scan for transactional ids nobody uses any more, in bounded steps.

An id has no deadline of its own: a scan every hour, as Kafka's, costs an idle id no memory.
"""

from collections import deque

from coordinator.machine import Outcome, Record
from coordinator.transactions.ledger import TransactionLedger
from coordinator.transactions.states import IDLE, key_bytes

IDS_PER_STEP = 5_000
TOMBSTONE_BYTES = 16 * 1024
"""Expired ids go out in batches of at most about this many bytes (KAFKA-13099)."""


class ExpiryScan:
    """Where the scan stands. Soft state: a reload begins anew."""

    def __init__(self) -> None:
        self.next_ms = 0
        self._rest: deque[str] = deque()

    def step(self, ledger: TransactionLedger, now_ms: int, *, expiration_ms: int, interval_ms: int) -> Outcome:
        """Tombstones for ids that were idle for too long (those whose epoch is still -1 too, KAFKA-14880).

        A refused batch changes nothing, and the ids stay usable (KAFKA-7519); the next scan tries again.
        """
        if not self._rest:
            self._rest.extend(ledger.transactions)
        tombstones: list[Record] = []
        size_bytes = visited = 0
        while self._rest and visited < IDS_PER_STEP and size_bytes < TOMBSTONE_BYTES:
            transactional_id = self._rest.popleft()
            visited += 1
            transaction = ledger.transactions.get(transactional_id)
            if transaction is None or transaction.state not in IDLE:
                continue
            if transaction.last_update_ms <= now_ms - expiration_ms:
                key = key_bytes(transactional_id)
                tombstones.append(Record(key, None))
                size_bytes += len(key) + 32
        self.next_ms = now_ms if self._rest else now_ms + interval_ms
        return Outcome(records=tombstones, reason=f"{len(tombstones)} ids expired" if tombstones else "")
