"""Compaction: of every key the newest committed record stays, and transactions leave without a trace that misleads.

Rule 1. Only whole segments below the last stable offset are touched, never the active one (KAFKA-13194).
Rule 2. Records of aborted transactions go. A marker goes when no batch of its transaction is left and its delete
        horizon has passed; the horizon is stamped into the batch on an earlier pass (KIP-534).
Rule 3. Of every producer the batch that tells its last sequence or its fencing epoch stays, empty if need be, and so
        does the last batch of every new segment: a segment says how far it reaches, and recovery goes by that.
Rule 4. A replacement is written as `.cleaned`, synced, renamed to `.swap`, and then takes the place of the segments it
        was made from; recovery deletes the first kind and finishes the second. One of both is always whole.

A pass is a generator. Between two of its steps anything may happen to the log: appends, rolls, retention.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from protocol.records.batch import BatchHeader, CorruptRecords
from protocol.records.record import Record, records_of, refill_batch
from protocol.schema import Buffer
from storage.aborted import AbortedTransaction
from storage.cleaned_segment import CleanedSegment
from storage.cleaned_transactions import CleanedTransactions
from storage.key_map import KeyMap
from storage.segment import Segment
from storage.segment_log import SegmentLog

SLICE_BYTES = 64 << 10
"""How much is read between two breaths."""
MAX_KEYS = 1_000_000
"""How many keys one pass remembers (Kafka bounds this by log.cleaner.dedupe.buffer.size)."""

Blocking = Callable[[], None]
"""Work that may take long and touches nothing but files: to be run off the loop before the pass goes on."""
Step = Blocking | None


class LastBatch(NamedTuple):
    """What must stay of a producer: the batch with its last data, or, where only a marker is known, that."""

    last_data_offset: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass works on: the first segments of a log, and where each of them ends."""

    segments: tuple[Segment, ...]
    ends: tuple[int, ...]
    first_dirty_offset: int

    @property
    def start_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self.ends[-1]


@dataclass(slots=True)
class Pass:
    """What a pass has done. `first_dirty_offset` is where the next one begins to look for new keys."""

    first_dirty_offset: int
    bytes_before: int = 0
    bytes_after: int = 0
    segments_before: int = 0
    segments_after: int = 0

    def count(self, group: tuple[Segment, ...], size_bytes: int) -> None:
        self.segments_before += len(group)
        self.segments_after += 1
        self.bytes_before += sum(segment.size_bytes for segment in group)
        self.bytes_after += size_bytes


def plan(log: SegmentLog, *, first_dirty_offset: int, last_stable_offset: int, now_ms: int) -> Plan | None:
    """What there is to compact, or None: enough of the log is dirty, or something is dirty for too long."""
    config = log.config
    ends = [segment.base_offset for segment in log.segments[1:]]
    chosen: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment, end_offset in zip(log.segments, ends, strict=False):
        newest_ms = segment.largest_timestamp[0]
        is_dirty = end_offset > first_dirty_offset
        if end_offset > last_stable_offset or (is_dirty and newest_ms > now_ms - config.min_compaction_lag_ms):
            break
        chosen.append(segment)
        if is_dirty:
            dirty_bytes += segment.size_bytes
            overdue = overdue or now_ms - segment.first_timestamp_ms > config.max_compaction_lag_ms
        else:
            clean_bytes += segment.size_bytes
    if dirty_bytes == 0:
        return None
    if not overdue and dirty_bytes < config.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes):
        return None
    return Plan(tuple(chosen), tuple(ends[: len(chosen)]), first_dirty_offset)


def compact(
    log: SegmentLog,
    planned: Plan,
    *,
    aborted: list[AbortedTransaction],
    last_batches: Mapping[int, LastBatch],
    now_ms: int,
    before_swap: Callable[[], None],
    after_swap: Callable[[], None],
    max_keys: int = MAX_KEYS,
) -> Generator[Step, None, Pass]:
    """One pass. Yields None to let the loop breathe and `Blocking` work to be run elsewhere.

    Returns (as the generator's value) a `Pass`. Gives up without harm where the segments were changed by others.
    `before_swap` and `after_swap` are called around each replacement, in one breath with it. Raises `OSError`.
    """
    keys = KeyMap(max_keys)
    yield from _read_keys(log, planned, aborted, keys)
    done = Pass(planned.first_dirty_offset)
    cleaning = _Cleaning(log, keys, CleanedTransactions(aborted), last_batches, now_ms)
    for group in _groups(log, planned.segments):
        if group[0].base_offset >= keys.end_offset:
            break
        replacement = CleanedSegment(log.files, log.folder, group[0].base_offset, log.config)
        try:
            yield from cleaning.clean(group, replacement)
            if not _still_there(log, group):
                return done
            if len(group) > 1 or replacement.changed:
                yield replacement.sync
                if not _still_there(log, group):
                    return done
                replacement.ready()
                yield replacement.sync_folder
                if not _still_there(log, group):
                    return done
                before_swap()
                replacement.take_over()
                first = log.segments.index(group[0])
                log.replace_segments(range(first, first + len(group)), replacement.install)
                after_swap()
                done.count(group, replacement.size_bytes)
        finally:
            replacement.give_up()
        yield None
    done.first_dirty_offset = max(done.first_dirty_offset, keys.end_offset)
    return done


def _read_keys(log: SegmentLog, planned: Plan, aborted: list[AbortedTransaction], keys: KeyMap) -> Iterator[Step]:
    """Remember the newest offset of every key in the dirty part; records of aborted transactions do not count."""
    dirty = [s for s, end in zip(planned.segments, planned.ends, strict=True) if end > planned.first_dirty_offset]
    # Transactions that ended before the first segment we look at must not spill into it.
    transactions = CleanedTransactions([entry for entry in aborted if entry.last_offset >= dirty[0].base_offset])
    read = 0
    keys.end_offset = planned.first_dirty_offset
    for segment in dirty:
        if not _still_there(log, (segment,)):
            return
        for _, header, batch in segment.batches(0, read_bytes=SLICE_BYTES):
            read += len(batch)
            if header.is_control:
                transactions.marker_seen(header, batch)
            elif not transactions.data_seen(header) and not _remember(keys, header, batch, planned.first_dirty_offset):
                return
            keys.end_offset = max(keys.end_offset, header.next_offset)
            if read >= SLICE_BYTES:
                read = 0
                yield None
                if not _still_there(log, (segment,)):
                    return


def _remember(keys: KeyMap, header: BatchHeader, batch: Buffer, first_dirty_offset: int) -> bool:
    """False where the map is full: what lies from this batch on waits for the next pass."""
    if header.base_offset < first_dirty_offset:
        return True  # An earlier pass has seen to these keys.
    if keys.room < header.records_count and len(keys):
        return False
    try:
        offsets = [(record.key, record.offset) for record in records_of(batch) if record.key is not None]
    except CorruptRecords:
        return True  # Nonsense that was never looked into: it supersedes nothing.
    for key, offset in offsets:
        keys.put(key, offset)
    return True


def _groups(log: SegmentLog, segments: tuple[Segment, ...]) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit into one segment together."""
    group: list[Segment] = []
    size_bytes = 0
    for segment in segments:
        spans_too_much = group and segment.base_offset - group[0].base_offset > 1 << 30
        if group and (size_bytes + segment.size_bytes > log.config.segment_bytes or spans_too_much):
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(segment)
        size_bytes += segment.size_bytes
    if group:
        yield tuple(group)


def _still_there(log: SegmentLog, group: tuple[Segment, ...]) -> bool:
    return not log.failed and all(segment in log.segments for segment in group)


class _Cleaning:
    """Copying what stays."""

    def __init__(
        self,
        log: SegmentLog,
        keys: KeyMap,
        transactions: CleanedTransactions,
        last_batches: Mapping[int, LastBatch],
        now_ms: int,
    ) -> None:
        self._log = log
        self._keys = keys
        self._transactions = transactions
        self._last_batches = last_batches
        self._now_ms = now_ms

    def clean(self, group: tuple[Segment, ...], target: CleanedSegment) -> Iterator[Step]:
        """Copy what stays of `group` into `target`."""
        read = 0
        # The last batch is known when the next one is: it alone stays even where nothing of it is left.
        waiting: tuple[BatchHeader, Buffer] | None = None
        for segment in group:
            if not _still_there(self._log, group):
                return
            for _, header, batch in segment.batches(0, read_bytes=SLICE_BYTES):
                if waiting is not None:
                    self._copy(*waiting, target, is_last=False)
                waiting = header, batch
                read += len(batch)
                if read >= SLICE_BYTES:
                    read = 0
                    target.write_out()
                    yield None
                    if not _still_there(self._log, group):
                        return
        if waiting is not None:
            self._copy(*waiting, target, is_last=True)
        target.finish()

    def _copy(self, header: BatchHeader, batch: Buffer, target: CleanedSegment, *, is_last: bool) -> None:
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        if header.is_control:
            unneeded = self._transactions.marker_seen(header, batch, target.aborted)
            # The last that is known of a producer stays as it is: empty, it would tell the epoch, but not the
            # coordinator's, and an older coordinator could write after it (I28).
            gone = unneeded and horizon_ms is not None and horizon_ms <= self._now_ms and not self._must_stay(header)
            stamps = unneeded and horizon_ms is None
        else:
            gone, stamps = self._transactions.data_seen(header), False
        records = [] if gone else self._kept(header, batch, horizon_ms)
        if records is None:
            target.add(header, batch)
            return
        if not header.is_control:
            stamps = horizon_ms is None and any(record.value is None for record in records)
        if not records and not is_last and not self._must_stay(header):
            target.changed = True
            return
        if len(records) == header.records_count and not stamps:
            target.add(header, batch)
            return
        target.changed = True
        horizon = self._now_ms + self._log.config.delete_retention_ms if stamps else None
        filled = refill_batch(header, records, delete_horizon_ms=horizon)
        target.add(header, filled)

    def _kept(self, header: BatchHeader, batch: Buffer, horizon_ms: int | None) -> list[Record] | None:
        """The records that stay. None where they cannot be read: a producer's nonsense, nobody's business, stays."""
        try:
            records = list(records_of(batch))
        except CorruptRecords:
            return None
        if header.is_control or header.base_offset >= self._keys.end_offset:
            return records
        return [record for record in records if self._stays(record, horizon_ms)]

    def _stays(self, record: Record, horizon_ms: int | None) -> bool:
        if record.key is None:
            return False
        if record.offset < self._keys.get(record.key):
            return False
        return record.value is not None or horizon_ms is None or self._now_ms < horizon_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        last = self._last_batches.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch
