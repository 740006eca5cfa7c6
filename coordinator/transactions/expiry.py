"""The scan for transactional ids that are no longer used, in bounded steps.

An id has no deadline of its own: a scan every hour, as Kafka's, costs an idle id no memory.
"""

from collections import deque

from coordinator.batch_room import BatchRoom
from coordinator.machine import AnyOutcome, Outcome, Record
from coordinator.transactions.ledger import TransactionLedger
from coordinator.transactions.states import IDLE, key_bytes

IDS_PER_STEP = 5_000
TOMBSTONE_BYTES = 16 * 1024
"""Expired ids go out in batches of at most this many bytes (KAFKA-13099)."""


class ExpiryScan:
    """Where the scan stands. Soft state: a reload begins anew."""

    def __init__(self) -> None:
        self.next_ms = 0
        self._rest: deque[str] = deque()

    def step(
        self, ledger: TransactionLedger, now_ms: int, *, expiration_ms: int, interval_ms: int, max_batch_bytes: int
    ) -> AnyOutcome:
        """Tombstones for ids that were idle for too long (those whose epoch is still -1 too, KAFKA-14880).

        A refused batch changes nothing, and the ids stay usable (KAFKA-7519); the next scan tries again.
        """
        if not self._rest:
            self._rest.extend(ledger.transactions)
        room = BatchRoom(min(TOMBSTONE_BYTES, max_batch_bytes))
        visited = 0
        while self._rest and visited < IDS_PER_STEP:
            transactional_id = self._rest[0]
            visited += 1
            expired = _is_idle_since(ledger, transactional_id, now_ms - expiration_ms)
            if expired and not room.add(Record(key_bytes(transactional_id), None)):
                break
            self._rest.popleft()
        self.next_ms = now_ms if self._rest else now_ms + interval_ms
        return Outcome(records=room.records, reason=f"{len(room.records)} ids expired" if room.records else "")


def _is_idle_since(ledger: TransactionLedger, transactional_id: str, last_ms: int) -> bool:
    transaction = ledger.transactions.get(transactional_id)
    return transaction is not None and transaction.state in IDLE and transaction.last_update_ms <= last_ms
