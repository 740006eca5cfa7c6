"""What follows from the bytes of a partition's log: producers and aborted transactions, rebuilt when it is opened.

The snapshot is the commit point. When one is written for an offset, the aborted index is on the disk up to there, so
opening takes the newest readable snapshot, cuts the index back to it, and replays the log from it: whatever a crash
left of index entries behind it is made anew. A damaged snapshot only means a longer replay.
"""

from collections.abc import Callable

from protocol.records.batch import BatchHeader
from protocol.records.control import read_end_transaction
from protocol.schema import Buffer
from storage.log import Log, StorageFailed
from storage.producer_state import CompletedTransaction, EndMarker, ProducerState


class DerivedState:
    """See the head of this file. Observes its log; `on_moved` is called when that was cut at either end."""

    def __init__(self, log: Log, *, now_ms: int, expiration_ms: int, on_moved: Callable[[], None]) -> None:
        self._log = log
        self._on_moved = on_moved
        self._expiration_ms = expiration_ms
        self._replayed_at_ms = now_ms
        self._snapshots = log.snapshots()
        self._snapshot_offset = -1
        self.aborted = log.aborted_index()
        self.producers = self._rebuild(now_ms)
        log.observe(self)

    def transaction_completed(self, completed: CompletedTransaction | None) -> None:
        """Index an aborted transaction, before it counts as complete (KAFKA-7866). Raises `StorageFailed`."""
        if completed is None or not completed.aborted:
            return
        try:
            self.aborted.append(completed)
        except OSError as error:
            raise StorageFailed(f"the aborted-transaction index took no entry: {error}") from error

    def snapshot(self) -> None:
        """Write down the state, unless that has been done for this offset. Raises `StorageFailed`."""
        if self._snapshots is None or self._snapshot_offset == self.producers.offset:
            return
        try:
            self.aborted.sync()
            self._snapshots.write(self.producers, durable_offset=self._log.durable_offset)
        except OSError as error:
            raise StorageFailed(f"producer state could not be written down: {error}") from error
        self._snapshot_offset = self.producers.offset

    def close(self) -> None:
        if self.producers.offset > self._log.start_offset or len(self.producers):
            self.snapshot()
        self.aborted.close()

    def discard(self) -> None:
        """Close the files as they are."""
        self.aborted.discard()
        self._log.abandon()

    def compaction_begins(self, end_offset: int) -> None:
        """Segments below `end_offset` are about to be replaced: no older snapshot may be replayed from any more."""
        assert self._snapshots is not None
        self.snapshot()
        try:
            self._snapshots.forget_before(end_offset)
        except OSError as error:
            raise StorageFailed(f"old snapshots could not be deleted: {error}") from error

    def segments_replaced(self) -> None:
        """Truncation or compaction left other segments, with their indexes."""
        self.aborted.reload(self._log.segment_bases())

    # ----------------------------------------------------------------------------------------------------- LogObserver

    def segment_rolled(self, base_offset: int) -> None:
        assert base_offset == self.producers.offset, "a segment rolls before its first batch is written"
        self.snapshot()
        self.aborted.segment_rolled(base_offset)

    def checkpoint_due(self, offset: int) -> None:
        assert offset == self.producers.offset, "a checkpoint is due between two appends"
        self.snapshot()

    def truncated(self, end_offset: int) -> None:
        """Rebuild before anything of the shorter log is published (KAFKA-12153)."""
        self.segments_replaced()
        self.producers = self._rebuild(self._replayed_at_ms)
        self._on_moved()

    def trimmed(self, start_offset: int) -> None:
        try:
            self.aborted.trimmed(start_offset)
        except OSError as error:
            raise StorageFailed(f"the aborted-transaction index could not be synced: {error}") from error
        self.producers.trimmed(start_offset)
        self._on_moved()

    # --------------------------------------------------------------------------------------------------------- opening

    def _rebuild(self, now_ms: int) -> ProducerState:
        log = self._log
        # Records that DeleteRecords took from readers still tell of their producers, as long as their bytes are there.
        first_offset = log.segment_bases()[0]
        state = None
        if self._snapshots is not None:
            state = self._snapshots.load(
                start_offset=first_offset,
                end_offset=log.end_offset,
                now_ms=now_ms,
                expiration_ms=self._expiration_ms,
            )
        self._snapshot_offset = -1 if state is None else state.offset
        if state is None:
            state = ProducerState(first_offset)
        self.aborted.truncate(state.offset)
        self._replay(state, now_ms)
        state.skip_to(log.end_offset)
        return state

    def _replay(self, state: ProducerState, now_ms: int) -> None:
        """What is behind the snapshot. Nobody knows when it was written, so its producers count as seen just now."""
        for header, batch in self._log.replay(state.offset):
            marker = None
            if header.is_control and batch is not None and header.records_count > 0:
                marker = marker_in(header, batch)
            completed = state.replay(header, marker, now_ms)
            self.transaction_completed(completed)


def marker_in(header: BatchHeader, batch: Buffer) -> EndMarker | None:
    """The marker in a control batch; None where the batch is of another kind."""
    end = read_end_transaction(batch, 0)
    if end is None:
        return None
    return EndMarker(header.producer_id, header.producer_epoch, end.commit, end.coordinator_epoch, header.max_timestamp)
