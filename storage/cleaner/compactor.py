"""Compaction of one partition, pass after pass: how far it came, what it could not read, what it must spare."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from storage.cleaner.cleaning import LastBatch, Work
from storage.cleaner.compaction import Pass, Plan, compact, plan
from storage.log import LogDamaged, StorageFailed
from storage.producers.aborted import AbortedIndex, AbortedTransaction, WrittenIndex
from storage.producers.producer_entry import NO_OFFSET
from storage.producers.producer_state import ProducerState
from storage.steps import Spent, Steps, never

if TYPE_CHECKING:
    from storage.segment_log import SegmentLog

CHECKPOINT = "compaction-checkpoint"
"""Two lines: a version, and the offset up to which the log was compacted. Without it, the next pass reads more."""


class Derived(Protocol):
    """What follows from the bytes of the log, and has to follow compaction."""

    @property
    def aborted(self) -> AbortedIndex: ...

    @property
    def producers(self) -> ProducerState: ...

    def compaction_begins(self, end_offset: int) -> Steps[None]:
        """Segments below `end_offset` are about to be replaced."""

    def segments_compacted(self, bases: Sequence[int], index: WrittenIndex) -> Steps[None]:
        """Those that began at these offsets have been, by one that begins where the first of them did, whose index this
        is."""


class Compactor:
    """Remembers how far the log was compacted. `report` gets a sentence for the broker's log, each only once."""

    def __init__(self, log: "SegmentLog", derived: Derived, *, report: Callable[[str], None]) -> None:
        self._log = log
        self._path = f"{log.folder}/{CHECKPOINT}"
        self._begin(log.folder, derived, report)
        self.first_dirty_offset = self._read_checkpoint()

    def _begin(self, name: str, derived: Derived, report: Callable[[str], None]) -> None:
        self._name = name
        self._derived = derived
        self._report = report
        self._running = False
        self._damaged: frozenset[int] = frozenset()
        self._reported_to = 0
        self._work = Work(never)
        self.unreadable_batches = 0
        """How many batches were found that compaction cannot read, and so keeps as they are."""

    @property
    def moved_bytes(self) -> int:
        """What the pass under way, or the last one, has read and written so far."""
        return self._work.moved_bytes

    def due(self, last_stable_offset: int, now_ms: int, spent: Spent) -> Steps[Plan | None]:
        """What a pass would work on now. Rolls the active segment where its first record has waited for longer than
        `max.compaction.lag.ms` (KIP-354); Kafka waits for the next append to do so."""
        log = self._log
        if self._running or log.failed or not log.config.cleanup_compact:
            return None
        first_ms = log.active.first_timestamp_ms
        if first_ms >= 0 and now_ms - first_ms > log.config.max_compaction_lag_ms:
            log.roll()
        return (
            yield from plan(
                log,
                first_dirty_offset=self.first_dirty_offset,
                last_stable_offset=last_stable_offset,
                now_ms=now_ms,
                damaged=self._damaged,
                spent=spent,
            )
        )

    def run(self, planned: Plan, now_ms: int, spent: Spent = never) -> Steps[None]:
        """One pass. Raises `StorageFailed`, and `LogDamaged` where something cannot be read: nobody but this pass goes
        without; never because the log is abandoned meanwhile."""
        self._running = True
        self._work = Work(spent)
        try:
            done = yield from compact(
                self._log,
                planned,
                aborted=(yield from self._aborted(planned, spent)),
                last_batch_of=self._last_batch_of,
                now_ms=now_ms,
                work=self._work,
                before_swap=lambda: self._derived.compaction_begins(planned.end_offset),
                after_swap=self._derived.segments_compacted,
            )
            self._tell(done)
            if self._log.failed or done.first_dirty_offset == self.first_dirty_offset:
                return
            self.first_dirty_offset = done.first_dirty_offset
            checkpoint = f"0\n{self.first_dirty_offset}\n".encode()
            yield lambda: self._log.files.write_whole(self._path, checkpoint)
        except (OSError, LogDamaged) as error:
            if self._log.closed:
                return  # The topic was deleted: its folder has another name, or is gone.
            if isinstance(error, LogDamaged):
                raise
            raise StorageFailed(f"{self._log.folder} could not be compacted: {error}") from error
        finally:
            self._running = False

    def _aborted(self, planned: Plan, spent: Spent) -> Steps[list[AbortedTransaction]]:
        try:
            return (yield from self._derived.aborted.gather(planned.start_offset, planned.end_offset, spent))
        except OSError as error:
            path, reason = f"{self._name}/*.txnindex", f"a file cannot be read: {error}"
            raise LogDamaged(path, None, planned.start_offset, reason) from error

    def _tell(self, done: Pass) -> None:
        unreadable = sorted(entry for entry in set(self._work.unreadable) if entry[0] >= self._reported_to)
        if unreadable:
            offset, reason = unreadable[0]
            self.unreadable_batches += len({base for base, _ in unreadable})
            self._reported_to = unreadable[-1][0] + 1
            self._report(f"{self._name}: compaction cannot read the batch at {offset} and keeps it: {reason}")
        if done.damaged is not None:
            self._damaged |= {done.damaged.segment.base_offset}
            self._report(f"{done.damaged}; compaction leaves alone what begins there")

    def _last_batch_of(self, producer_id: int) -> LastBatch | None:
        """What must stay of a producer, if it is still known."""
        entry = self._derived.producers.entry(producer_id)
        if entry is None:
            return None
        last_offset = entry.batches[-1].last_offset if entry.batches else NO_OFFSET
        return LastBatch(None if last_offset == NO_OFFSET else last_offset, entry.epoch)

    def _read_checkpoint(self) -> int:
        files = self._log.files
        if not files.exists(self._path):
            return 0
        file = files.open(self._path)
        try:
            lines = file.read(0, file.size()).split()
        finally:
            file.close()
        readable = len(lines) == 2 and lines[0] == b"0" and lines[1].isdigit()
        return min(int(lines[1]), self._log.end_offset) if readable else 0
