"""Compaction of one partition: what `storage.compaction` needs to know of producers, transactions and snapshots."""

from collections.abc import Callable, Iterator

from broker.partitions.derived import DerivedState
from storage.compaction import LastBatch, Plan, compact, plan
from storage.log import StorageFailed
from storage.producer_entry import NO_OFFSET
from storage.producer_state import ProducerState
from storage.segment_log import SegmentLog

CHECKPOINT = "compaction-checkpoint"
"""Two lines: a version, and the offset up to which the log was compacted. Without it, the next pass reads more."""


class Compactor:
    """Remembers how far the log was compacted. Logs in memory are never compacted."""

    def __init__(self, log: SegmentLog, derived: DerivedState) -> None:
        self._log = log
        self._derived = derived
        self._path = f"{log.folder}/{CHECKPOINT}"
        self._running = False
        self.first_dirty_offset = self._read_checkpoint()

    def due(self, last_stable_offset: int, now_ms: int) -> Plan | None:
        """What a pass would work on now."""
        if self._running or self._log.failed or not self._log.config.cleanup_compact:
            return None
        return plan(
            self._log,
            first_dirty_offset=self.first_dirty_offset,
            last_stable_offset=last_stable_offset,
            now_ms=now_ms,
        )

    def run(self, planned: Plan, now_ms: int) -> Iterator[Callable[[], None] | None]:
        """One pass, in steps: None is a breath, anything else is to be run off the loop before the next step."""
        self._running = True
        try:
            done = yield from compact(
                self._log,
                planned,
                aborted=self._derived.aborted.collect(planned.start_offset, planned.end_offset),
                last_batches=last_batches(self._derived.producers),
                now_ms=now_ms,
                before_swap=lambda: self._derived.compaction_begins(planned.end_offset),
                after_swap=self._derived.segments_replaced,
            )
            self.first_dirty_offset = done.first_dirty_offset
            self._log.files.write_whole(self._path, f"0\n{self.first_dirty_offset}\n".encode())
        except OSError as error:
            raise StorageFailed(f"{self._log.folder} could not be compacted: {error}") from error
        finally:
            self._running = False

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


def last_batches(producers: ProducerState) -> dict[int, LastBatch]:
    """What must stay of every producer that is still known."""
    found: dict[int, LastBatch] = {}
    for producer_id, entry in producers.entries():
        last_offset = entry.batches[-1].last_offset if entry.batches else NO_OFFSET
        found[producer_id] = LastBatch(None if last_offset == NO_OFFSET else last_offset, entry.epoch)
    return found
