"""Which transactions a pass of compaction is in the middle of, as it walks over a log from its beginning.

One object for a whole pass: a transaction may begin in one segment and end in another (KAFKA-8351).
"""

from operator import attrgetter

from protocol.records.batch import BatchHeader
from protocol.records.control import read_end_transaction
from protocol.schema import Buffer
from storage.producers.aborted import AbortedTransaction


class CleanedTransactions:
    """`data_seen` and `marker_seen` are called for every batch, in the order of the log."""

    def __init__(self, aborted: list[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=attrgetter("first_offset"), reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._has_batches: set[int] = set()
        """Producers of whose current transaction a batch was seen."""

    def data_seen(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        self._has_batches.add(header.producer_id)
        return header.producer_id in self._aborted

    def marker_seen(self, header: BatchHeader, batch: Buffer, index: list[AbortedTransaction] | None = None) -> bool:
        """Whether no batch of the transaction is left before the marker, which may go then.

        Where one is left, the entry of an aborted transaction stays too: it is added to `index`.
        """
        self._begin_up_to(header.last_offset)
        end = read_end_transaction(batch) if header.records_count else None
        if end is None:
            return header.records_count == 0  # Emptied before; any other kind of control record stays.
        has_batches = header.producer_id in self._has_batches
        self._has_batches.discard(header.producer_id)
        transaction = None if end.commit else self._aborted.pop(header.producer_id, None)
        if has_batches and transaction is not None and index is not None:
            index.append(transaction)
        return not has_batches

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            transaction = self._to_come.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)
