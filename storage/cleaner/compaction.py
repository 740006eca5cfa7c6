"""Compaction: of every key the newest committed record stays, and transactions leave without a trace that misleads.

Rule 1. Only whole segments below the last stable offset are touched, never the active one (KAFKA-13194).
Rule 2. Records of aborted transactions go. A marker goes when no batch of its transaction is left and its delete
        horizon has passed; the horizon is stamped into the batch on an earlier pass (KIP-534).
Rule 3. Of every producer the batch with its last sequence or its fencing epoch stays, empty if need be, and so
        does the last batch of every new segment: a segment says how far it reaches, and recovery goes by that.
Rule 4. A replacement is written as `.cleaned`, synced, renamed to `.swap`, and then takes the place of the segments it
        was made from; recovery deletes the first kind and finishes the second. One of both is always whole.
Rule 5. A pass ends before a segment that is damaged: what lies there unread may be the rest of a transaction that
        began before, and the end of one that is behind.

A pass is a generator (`storage.steps`). Between two of its steps anything may happen to the log: appends, rolls,
retention, its deletion.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from protocol.records.batch import BatchHeader, CorruptRecords
from protocol.records.spans import spans_in
from protocol.schema import Buffer
from storage.cleaner.cleaned_segment import CleanedSegment
from storage.cleaner.cleaned_transactions import CleanedTransactions
from storage.cleaner.cleaning import Cleaning, DamagedSegment, LastBatch, Work, whole_batches
from storage.cleaner.key_map import KeyMap, short_of
from storage.log import LATEST_MS
from storage.producers.aborted import AbortedTransaction, WrittenIndex
from storage.segments.segment import Segment
from storage.segments.segment_format import LARGEST_RELATIVE_OFFSET
from storage.steps import RECORDS_AT_ONCE, Blocking, Spent, Steps, T, never, opened

if TYPE_CHECKING:
    from storage.segment_log import SegmentLog

MAX_KEYS = 1_000_000
"""How many keys one pass remembers (Kafka bounds this by log.cleaner.dedupe.buffer.size)."""
MERGED_AT_ONCE = 64
"""How many segments become one: their files are renamed in one turn of the loop. The next pass goes on with these."""


AfterSwap = Callable[[Sequence[int], WrittenIndex], Steps[None]]


class _Gone(Exception):
    """The segments were changed by others, or the log is no more."""


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
    damaged: DamagedSegment | None = None
    """What ended the pass early."""

    def count(self, group: tuple[Segment, ...], size_bytes: int) -> None:
        self.segments_before += len(group)
        self.segments_after += 1
        self.bytes_before += sum(segment.size_bytes for segment in group)
        self.bytes_after += size_bytes


def plan(
    log: "SegmentLog",
    *,
    first_dirty_offset: int,
    last_stable_offset: int,
    now_ms: int,
    damaged: Collection[int] = (),
    spent: Spent = never,
) -> Steps[Plan | None]:
    """What there is to compact, or None: enough of the log is dirty, or something is dirty for too long. Nothing from
    the first segment on whose base offset is `damaged`. None, too, where segments left the log meanwhile."""
    config, segments = log.config, list(log.segments)
    # Without a lag timestamps are not looked at: one of the future would keep all behind it from being compacted.
    lag_ms = config.min_compaction_lag_ms
    too_new_ms = now_ms - lag_ms if lag_ms > 0 else LATEST_MS
    ends = [segment.base_offset for segment in segments[1:]]
    chosen: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment, end_offset in zip(segments, ends, strict=False):
        if spent():
            yield None
            if not _are_there(log, segments):
                return None
        is_dirty = end_offset > first_dirty_offset
        if end_offset > last_stable_offset:
            break
        if is_dirty and segment.largest_timestamp[0] > too_new_ms:
            break
        if segment.base_offset in damaged or segment.damage:
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
    log: "SegmentLog",
    planned: Plan,
    *,
    aborted: list[AbortedTransaction],
    last_batch_of: Callable[[int], LastBatch | None],
    now_ms: int,
    work: Work,
    before_swap: Callable[[], Steps[None]],
    after_swap: AfterSwap,
    max_keys: int = MAX_KEYS,
) -> Steps[Pass]:
    """One pass. Gives up without harm where the segments were changed by others.

    `before_swap` comes before the first replacement. `after_swap` comes behind each, beginning in one breath; it is
    given where the segments began that are replaced, and the index that is theirs now. Raises `OSError`.
    """
    keys = KeyMap(max_keys)
    cleaning = Cleaning(log.config, keys, CleanedTransactions(aborted), last_batch_of, now_ms, work)
    done = yield from _compact(log, planned, aborted, cleaning, keys, before_swap, after_swap)
    yield from keys.forget(work.spent)
    return done


def _compact(
    log: "SegmentLog",
    planned: Plan,
    aborted: list[AbortedTransaction],
    cleaning: Cleaning,
    keys: KeyMap,
    before_swap: Callable[[], Steps[None]],
    after_swap: AfterSwap,
) -> Steps[Pass]:
    done = Pass(planned.first_dirty_offset)
    try:
        yield from _read_keys(log, planned, aborted, keys, cleaning.work)
    except _Gone:
        return done
    except DamagedSegment as damaged:
        done.damaged = damaged
    for group in _groups(log, planned, keys.end_offset, done.damaged):
        try:
            yield from _replace(log, group, cleaning, done, before_swap, after_swap)
        except _Gone:
            return done
        except DamagedSegment as damaged:
            done.damaged = damaged
            return done
        yield None
    done.first_dirty_offset = max(done.first_dirty_offset, keys.end_offset)
    return done


def _replace(
    log: "SegmentLog",
    group: tuple[Segment, ...],
    cleaning: Cleaning,
    done: Pass,
    before_swap: Callable[[], Steps[None]],
    after_swap: AfterSwap,
) -> Steps[None]:
    """Put what stays of a group in its place. Raises `_Gone`, `DamagedSegment`, `OSError`."""
    _check_there(log, group)
    replacement = CleanedSegment(log.files, log.folder, group[0].base_offset, log.config)
    try:
        yield from _while_there(log, group, cleaning.clean(group, replacement))
        if len(group) > 1 or replacement.changed:
            yield from _while_there(log, group, _elsewhere(replacement.sync))
            replacement.ready()
            log.replacement = replacement
            yield from _while_there(log, group, _elsewhere(replacement.sync_folder))
            if not done.segments_after:
                yield from _while_there(log, group, before_swap())
            replacement.take_over()
            first = log.segments.index(group[0])
            log.replace_segments(range(first, first + len(group)), replacement.install)
            done.count(group, replacement.size_bytes)
            yield from after_swap([segment.base_offset for segment in group], replacement.take_index())
    finally:
        log.replacement = None
        # The folder of a deleted topic is not ours any more, and another topic may have its name.
        replacement.give_up(leave_files=log.closed)


def _elsewhere(work: Blocking) -> Steps[None]:
    yield work


def _while_there(log: "SegmentLog", group: tuple[Segment, ...], steps: Steps[T]) -> Steps[T]:
    """The same steps, as long as the segments are part of the log. Raises `_Gone`."""
    try:
        while True:
            try:
                step = next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                yield step
            except OSError:
                _check_there(log, group)
                raise
            _check_there(log, group)
    finally:
        steps.close()


def _check_there(log: "SegmentLog", group: tuple[Segment, ...]) -> None:
    if not _are_there(log, group):
        raise _Gone


def _are_there(log: "SegmentLog", neighbours: Sequence[Segment]) -> bool:
    """Retention takes the first segments, truncation the last, and compaction goes on once at a time: where both ends
    are there, so is what lies between."""
    if log.failed:
        return False
    first = bisect_left(log.segments, neighbours[0].base_offset, key=attrgetter("base_offset"))
    last = first + len(neighbours) - 1
    return last < len(log.segments) and log.segments[first] is neighbours[0] and log.segments[last] is neighbours[-1]


def _read_keys(
    log: "SegmentLog", planned: Plan, aborted: list[AbortedTransaction], keys: KeyMap, work: Work
) -> Steps[None]:
    """Remember the newest offset of every key in the dirty part; records of aborted transactions do not count. Raises
    `_Gone` and `DamagedSegment`: what was read before the damage counts."""
    dirty = [s for s, end in zip(planned.segments, planned.ends, strict=True) if end > planned.first_dirty_offset]
    # Transactions that ended before the first segment we look at must not spill into it.
    since = bisect_left(aborted, dirty[0].base_offset, key=attrgetter("last_offset"))
    transactions = CleanedTransactions(aborted[since:])
    keys.end_offset = planned.first_dirty_offset
    for segment in dirty:
        _check_there(log, (segment,))
        steps = _keys_of(segment, transactions, keys, planned.first_dirty_offset, log, work)
        if not (yield from _while_there(log, (segment,), steps)):
            return


def _keys_of(
    segment: Segment,
    transactions: CleanedTransactions,
    keys: KeyMap,
    first_dirty_offset: int,
    log: "SegmentLog",
    work: Work,
) -> Steps[bool]:
    """False where the map is full."""
    for header, batch in whole_batches(segment):
        try:
            if header.is_control:
                transactions.marker_seen(header, batch)
            elif transactions.data_seen(header) or header.base_offset < first_dirty_offset:
                pass  # An earlier pass has seen to the keys before the dirty part.
            elif not (yield from _remember(keys, header, batch, log, work)):
                return False
        except CorruptRecords as error:
            work.cannot_read(header, error)
        keys.end_offset = max(keys.end_offset, header.next_offset)
        if work.moved(len(batch)):
            yield None
    return True


def _remember(keys: KeyMap, header: BatchHeader, batch: Buffer, log: "SegmentLog", work: Work) -> Steps[bool]:
    """False where the map is full: what lies from this batch on waits for the next pass. Raises `CorruptRecords`, and
    then nothing of the batch counts."""
    if keys.room < header.records_count and len(keys):
        return False
    body = yield from opened(header, batch, log.config.decompression)
    newest: dict[bytes, int] = {}
    for seen, (_, _, offset, _, key, _) in enumerate(spans_in(header, body), 1):
        if key is not None:
            newest[short_of(key)] = offset
        if not seen % RECORDS_AT_ONCE and work.spent():
            if len(newest) > keys.room:
                break
            yield None
    if len(newest) > keys.room:
        raise CorruptRecords(f"more than the {keys.room} keys that a pass remembers")
    for seen, (short, offset) in enumerate(newest.items()):
        keys.put(short, offset)
        if not seen % RECORDS_AT_ONCE and work.spent():
            yield None
    return True


def _groups(
    log: "SegmentLog", planned: Plan, end_offset: int, damaged: DamagedSegment | None
) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit into one segment together: those that begin before `end_offset`, and before what is
    damaged."""
    group: list[Segment] = []
    size_bytes = 0
    for segment, end in zip(planned.segments, planned.ends, strict=True):
        if damaged is not None and segment is damaged.segment:
            break
        if group and (
            len(group) == MERGED_AT_ONCE
            or size_bytes + segment.size_bytes > log.config.segment_bytes
            or end - 1 - group[0].base_offset > LARGEST_RELATIVE_OFFSET
        ):
            yield tuple(group)
            group, size_bytes = [], 0
        if not group and segment.base_offset >= end_offset:
            return
        group.append(segment)
        size_bytes += segment.size_bytes
    if group:
        yield tuple(group)
