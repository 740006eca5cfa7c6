"""What follows from the bytes of a partition's log: producers and aborted transactions, rebuilt when it is opened.

A snapshot is written off the loop, by the flush that moves the recovery point or by a caller about to take old
segments out of the log. It is the commit point. When one is written for an offset, the aborted index is on the disk up
to there, so opening takes the newest readable snapshot, cuts the index back to it, and replays the log from it:
whatever a crash left of index entries behind it is made anew. A damaged snapshot only means a longer replay. An index
that is not what was written before the snapshot (`aborted-checkpoint`) is made anew from the whole log.
"""

from collections.abc import Callable, Sequence
from threading import Lock

from broker.process.logging import EventLog
from protocol.records.batch import BatchHeader
from protocol.records.control import read_end_transaction
from protocol.schema import Buffer
from storage.files import File
from storage.log import Log, StorageFailed
from storage.producers.aborted import WrittenIndex
from storage.producers.producer_changes import CompletedTransaction, EndMarker
from storage.producers.producer_snapshot import SnapshotFiles
from storage.producers.producer_state import ProducerState
from storage.steps import Blocking, Steps, finish

_log = EventLog("recovery")


def _nothing() -> None:
    """The log is no longer followed."""


class DerivedState:
    """See the head of this file. Observes its log; `on_moved` is called when that was cut at either end."""

    def __init__(self, log: Log, *, now_ms: int, expiration_ms: int, on_moved: Callable[[], None]) -> None:
        self._log = log
        self._on_moved = on_moved
        self._expiration_ms = expiration_ms
        self._replayed_at_ms = now_ms
        self._snapshots = log.snapshots()
        self.snapshot_offset = -1
        self._under_way: SnapshotUnderWay | None = None
        self._due = False
        """Whether the next checkpoint takes a snapshot with it."""
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

    def is_remembered(self, offset: int, high_watermark: int) -> bool:
        """Whether what lies before may leave the log: a restart needs none of it to know the producers. Of a snapshot
        beyond what is committed a power cut would leave nothing."""
        return not len(self.producers) or offset <= self.snapshot_offset <= high_watermark

    def snapshot(self) -> None:
        """Write down the state here and now, unless that has been done for this offset. Raises `StorageFailed`."""
        try:
            finish(self.write_down(self.producers.offset))
        except OSError as error:
            raise StorageFailed(f"producer state could not be written down: {error}") from error

    def write_down(self, offset: int) -> Steps[None]:
        """Until a snapshot of the state at `offset` or later is on the disk. Raises `OSError`."""
        while self._snapshots is not None and self.snapshot_offset < offset:
            snapshot = self._under_way or self._begin_snapshot(self._snapshots)
            yield from self._snapshots.off_the_loop(snapshot.write)
            self._end_snapshot(snapshot)

    def close(self) -> None:
        if self._is_worth_a_snapshot():
            self.snapshot()
        self.aborted.close()

    def _is_worth_a_snapshot(self) -> bool:
        return self.producers.offset > self._log.start_offset or len(self.producers) > 0

    def _begin_snapshot(self, files: SnapshotFiles) -> "SnapshotUnderWay":
        self._due = False
        indexes, checkpoint = self.aborted.take_unsynced(), self.aborted.write_down()
        durable_offset = self._log.durable_offset
        self._under_way = SnapshotUnderWay(files, self.producers, indexes, checkpoint, durable_offset=durable_offset)
        return self._under_way

    def _end_snapshot(self, snapshot: "SnapshotUnderWay") -> None:
        if self._under_way is snapshot and snapshot.is_written:
            self._under_way = None
            self.snapshot_offset = snapshot.offset
            snapshot.end()

    def discard(self) -> None:
        """Close the files as they are."""
        self._on_moved = _nothing  # the partition is freed at once, and waits for no collector
        self.aborted.discard()
        self._log.abandon()

    def compaction_begins(self, end_offset: int) -> Steps[None]:
        """Segments below `end_offset` are about to be replaced: no older snapshot may be replayed from any more. Raises
        `OSError`."""
        snapshots = self._snapshots
        assert snapshots is not None
        yield from self.write_down(end_offset)
        yield from snapshots.off_the_loop(lambda: snapshots.forget_before(end_offset))

    def segments_compacted(self, bases: Sequence[int], index: WrittenIndex) -> Steps[None]:
        """One took the place of these: its index is what is to be there from now on. Raises `OSError`."""
        self.aborted.merged(bases, index)
        write, snapshots = self.aborted.write_down(only_synced=True), self._snapshots
        if write is not None and snapshots is not None:
            yield from snapshots.off_the_loop(write)

    def follow(self, header: BatchHeader, batch: Buffer | None, now_ms: int) -> None:
        """Take in a batch that another node has appended; its bytes are known where it is a control batch."""
        self.transaction_completed(self.producers.replay(header, marker_of(header, batch), now_ms))

    # ----------------------------------------------------------------------------------------------------- LogObserver

    def segment_rolled(self, base_offset: int) -> None:
        assert base_offset == self.producers.offset, "a segment rolls before its first batch is written"
        self._due = True
        self.aborted.segment_rolled(base_offset)

    def checkpoint_due(self, offset: int) -> None:
        assert offset == self.producers.offset, "a checkpoint is due between two appends"
        self._due = True

    def checkpoint_begins(self, *, closing: bool) -> Callable[[], None] | None:
        due = self._due or (closing and self._is_worth_a_snapshot())
        if self._snapshots is None or not due or self._under_way is not None:
            return None
        if self.snapshot_offset == self.producers.offset:
            return None
        return self._begin_snapshot(self._snapshots).write

    def checkpoint_ended(self) -> None:
        if self._under_way is not None:
            self._end_snapshot(self._under_way)

    def truncated(self, end_offset: int) -> None:
        """Rebuild before anything of the shorter log is published (KAFKA-12153)."""
        if self._under_way is not None:  # it describes what is gone, and is to be found and deleted
            self._under_way.write()
            self._end_snapshot(self._under_way)
        self.aborted.reload(self._log.segment_bases())
        self.producers = self._rebuild(self._replayed_at_ms)
        self._on_moved()

    def trimmed(self, start_offset: int) -> None:
        """Retention and DeleteRecords forget no producer (KAFKA-7190), only segments that can no longer be read."""
        try:
            self.aborted.trimmed(start_offset)
        except OSError as error:
            raise StorageFailed(f"the aborted-transaction index could not be synced: {error}") from error
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
        self.snapshot_offset = -1 if state is None else state.offset
        if state is None:
            state = ProducerState(first_offset)
        if state.offset <= first_offset:
            self.aborted.clear()
        elif not self._is_index_right(state.offset):
            self._make_index_anew(first_offset, state.offset, now_ms)
        self._replay(state, now_ms)
        state.skip_to(log.end_offset)
        return state

    def _is_index_right(self, end_offset: int) -> bool:
        """Whether the index is what was written up to the snapshot, and can be read; it ends there now."""
        try:
            if not self.aborted.is_what_was_written(end_offset, self._log.start_offset):
                return False
            self.aborted.truncate(end_offset)
        except OSError as error:
            _log.warning("an index of aborted transactions cannot be read", log=self.aborted.folder, reason=error)
            return False
        return True

    def _make_index_anew(self, first_offset: int, end_offset: int, now_ms: int) -> None:
        """Of all the log up to the snapshot, which stays: it may know of producers whose records are gone."""
        self.aborted.clear()
        scratch = ProducerState(first_offset)
        for header, batch in self._log.replay(first_offset):
            if header.base_offset >= end_offset:
                break
            self.transaction_completed(scratch.replay(header, marker_of(header, batch), now_ms))
        self.aborted.sync()
        if (write := self.aborted.write_down()) is not None:
            write()
        _log.warning(
            "an index of aborted transactions was not what was written; it is made anew", log=self.aborted.folder
        )

    def _replay(self, state: ProducerState, now_ms: int) -> None:
        """What is behind the snapshot. Nobody knows when it was written, so its producers count as seen just now."""
        for header, batch in self._log.replay(state.offset):
            self.transaction_completed(state.replay(header, marker_of(header, batch), now_ms))


class SnapshotUnderWay:
    """The state at one moment, on its way to the disk. It is made and ended on the loop's thread."""

    def __init__(
        self,
        files: SnapshotFiles,
        state: ProducerState,
        indexes: Sequence[File],
        checkpoint: Blocking | None,
        *,
        durable_offset: int,
    ) -> None:
        self.offset = state.offset
        self.is_written = False
        self._files = files
        self._state = state
        self._entries = state.freeze()
        self._indexes = indexes
        self._checkpoint = checkpoint
        self._durable_offset = durable_offset
        self._one_at_a_time = Lock()

    def write(self) -> None:
        """On any thread, and once only: a second call waits for the first. The aborted index comes before the snapshot
        that vouches for it. Raises `OSError`."""
        with self._one_at_a_time:
            if not self.is_written:
                for index in self._indexes:
                    index.sync()
                if self._checkpoint is not None:
                    self._checkpoint()
                self._files.write(self.offset, self._entries, durable_offset=self._durable_offset)
                self.is_written = True

    def end(self) -> None:
        self._state.thaw()
        for index in self._indexes:
            index.close()


def marker_of(header: BatchHeader, batch: Buffer | None) -> EndMarker | None:
    """The marker that a batch carries, whose bytes are known where it is a control batch."""
    return marker_in(header, batch) if header.is_control and batch is not None and header.records_count > 0 else None


def marker_in(header: BatchHeader, batch: Buffer) -> EndMarker | None:
    """The marker in a control batch; None where the batch is of another kind."""
    end = read_end_transaction(batch, 0)
    if end is None:
        return None
    return EndMarker(header.producer_id, header.producer_epoch, end.commit, end.coordinator_epoch, header.max_timestamp)
