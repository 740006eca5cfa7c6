"""What compaction copies, batch by batch, and what it leaves out.

Rule 1. What cannot be read to its end, or fails its checksum, is not copied: `DamagedSegment`, and it stays as it is.
Rule 2. A batch that is whole and whose records cannot be read (a producer's nonsense, or more than may be
        decompressed) is copied as it is. It supersedes nothing; `Work` counts it.
Rule 3. Values and headers are never looked at: of a record that stays the bytes stay.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.records.batch import COMPRESSION_MASK, DELETE_HORIZON, BatchHeader, CorruptRecords, read_header
from protocol.records.compression import Body
from protocol.records.spans import append_at_other_base, spans_in
from protocol.schema import Buffer
from storage.cleaner.cleaned_segment import CleanedSegment
from storage.cleaner.cleaned_transactions import CleanedTransactions
from storage.cleaner.key_map import KeyMap
from storage.log import LATEST_MS, LogConfig
from storage.segments.segment import Segment
from storage.steps import RECORDS_AT_ONCE, Spent, Steps, opened, sealed

READ_BYTES = 64 << 10
AT_ONCE_BYTES = 256 << 10
"""How much is read or written between two breaths, however quick it was."""


class DamagedSegment(Exception):
    """A segment holds something that is no whole, sound batch; `position` is where."""

    def __init__(self, segment: Segment, position: int) -> None:
        super().__init__(f"{segment.path}.log is damaged at byte {position} of {segment.size_bytes}")
        self.segment = segment


class LastBatch(NamedTuple):
    """What must stay of a producer: the batch with its last data, or, where only a marker is known, that."""

    last_data_offset: int | None
    epoch: int


@dataclass(slots=True)
class Work:
    """How much was done, for callers that slow it down or count it."""

    spent: Spent
    moved_bytes: int = 0
    """Read and written."""
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    """(base offset, reason) of batches that stay because their records cannot be read; the first of them."""
    _since: int = 0

    def moved(self, size_bytes: int) -> bool:
        """Count what was read or written. True: let others have a turn."""
        self.moved_bytes += size_bytes
        self._since += size_bytes
        if self._since < AT_ONCE_BYTES and not self.spent():
            return False
        self._since = 0
        return True

    def cannot_read(self, header: BatchHeader, error: CorruptRecords) -> None:
        if len(self.unreadable) < 1_000:
            self.unreadable.append((header.base_offset, str(error)))


def whole_batches(segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch of a segment, its checksum checked. Raises `DamagedSegment` where they do not reach its end,
    `LogDamaged` where it cannot be read just now."""
    end = 0
    try:
        for position, header, batch in segment.batches(0, check=True, read_bytes=READ_BYTES):
            yield header, batch
            end = position + len(batch)
    except OSError as error:
        raise segment.unreadable(error) from error
    if end != segment.size_bytes:
        raise DamagedSegment(segment, end)


@dataclass(slots=True)
class _Kept:
    """The records of a batch that stay."""

    body: Body
    """All records, those that go among them."""
    records: bytearray = field(default_factory=bytearray)
    count: int = 0
    newest_ms: int = -1
    has_tombstone: bool = False


class Cleaning:
    """Copying what stays, for one pass."""

    def __init__(
        self,
        config: LogConfig,
        keys: KeyMap,
        transactions: CleanedTransactions,
        last_batch_of: Callable[[int], LastBatch | None],
        now_ms: int,
        work: Work,
    ) -> None:
        self._config = config
        self._keys = keys
        self._transactions = transactions
        self._last_batch_of = last_batch_of
        self._now_ms = now_ms
        self.work = work

    def clean(self, group: tuple[Segment, ...], target: CleanedSegment) -> Steps[None]:
        """Copy what stays of `group` into `target`. Raises `DamagedSegment`."""
        # The last batch is known when the next one is: it alone stays even where nothing of it is left.
        waiting: tuple[BatchHeader, Buffer] | None = None
        for segment in group:
            for header, batch in whole_batches(segment):
                if waiting is not None:
                    yield from self._copy(*waiting, target, is_last=False)
                waiting = header, batch
                if self.work.moved(len(batch)):
                    target.write_out()
                    yield None
        if waiting is not None:
            yield from self._copy(*waiting, target, is_last=True)
        target.finish()

    def _copy(self, header: BatchHeader, batch: Buffer, target: CleanedSegment, *, is_last: bool) -> Steps[None]:
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        try:
            if header.is_control:
                unneeded = self._transactions.marker_seen(header, batch, target.aborted)
                # The last that is known of a producer stays as it is: empty, it would tell the epoch, but not the
                # coordinator's, and an older coordinator could write after it (I28).
                gone = unneeded and horizon_ms is not None and horizon_ms <= self._now_ms
                gone = gone and not self._must_stay(header)
            else:
                unneeded = gone = self._transactions.data_seen(header)
            kept = _Kept(b"") if gone else (yield from self._kept(header, batch, horizon_ms))
        except CorruptRecords as error:
            self.work.cannot_read(header, error)
            self._add(header, batch, target)
            return
        stamps = horizon_ms is None and (unneeded if header.is_control else kept.has_tombstone)
        if not kept.count and not is_last and not self._must_stay(header):
            target.changed = True
            return
        if kept.count == header.records_count and not stamps:
            self._add(header, batch, target)
            return
        target.changed = True
        filled = yield from self._refilled(header, kept, horizon_ms, stamps=stamps)
        self._add(read_header(filled), filled, target)

    def _add(self, header: BatchHeader, batch: Buffer, target: CleanedSegment) -> None:
        target.add(header, batch)
        self.work.moved_bytes += len(batch)

    def _kept(self, header: BatchHeader, batch: Buffer, horizon_ms: int | None) -> Steps[_Kept]:
        """The records that stay. Raises `CorruptRecords`."""
        kept = _Kept((yield from opened(header, batch, self._config.decompression)))
        body, records = kept.body, kept.records
        all_stay = header.is_control or header.base_offset >= self._keys.end_offset
        begin = end = 0
        for seen, (start, stop, offset, timestamp_ms, key, value_bytes) in enumerate(spans_in(header, body), 1):
            if all_stay or self._stays(offset, key, value_bytes, horizon_ms):
                if start != end:
                    records += body[begin:end]
                    begin = start
                end = stop
                kept.count += 1
                kept.newest_ms = max(kept.newest_ms, timestamp_ms)
                kept.has_tombstone = kept.has_tombstone or value_bytes < 0
            if not seen % RECORDS_AT_ONCE and self.work.spent():
                yield None
        records += body[begin:end]
        return kept

    def _stays(self, offset: int, key: bytes | None, value_bytes: int, horizon_ms: int | None) -> bool:
        if key is None:
            return False
        if offset < self._keys.get(key):
            return False
        return value_bytes >= 0 or horizon_ms is None or self._now_ms < horizon_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        last = self._last_batch_of(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _refilled(self, header: BatchHeader, kept: _Kept, horizon_ms: int | None, *, stamps: bool) -> Steps[bytes]:
        """The batch with fewer records. Offsets, sequences, producer and codec stay. Where it `stamps`, the time from
        which its tombstones may go becomes the base timestamp, and the flag that says so is set (KIP-534)."""
        attributes, records, base_ms = header.attributes, kept.records, header.base_timestamp
        if stamps:
            attributes |= DELETE_HORIZON
            base_ms = min(LATEST_MS, self._now_ms + self._config.delete_retention_ms)
            records = yield from self._at_other_base(header, kept, horizon_ms, base_ms)
        if not kept.count:
            attributes &= ~COMPRESSION_MASK
        newest_ms = kept.newest_ms if kept.count else header.max_timestamp
        changed = header._replace(
            attributes=attributes, base_timestamp=base_ms, max_timestamp=newest_ms, records_count=kept.count
        )
        return (yield from sealed(changed, records))

    def _at_other_base(
        self, header: BatchHeader, kept: _Kept, horizon_ms: int | None, base_ms: int
    ) -> Steps[bytearray]:
        """The records that stay, their timestamps relative to another base."""
        records, all_stay = bytearray(), kept.count == header.records_count
        for seen, span in enumerate(spans_in(header, kept.body), 1):
            if all_stay or self._stays(span[2], span[4], span[5], horizon_ms):
                append_at_other_base(records, kept.body, span, old_base_ms=header.base_timestamp, base_ms=base_ms)
            if not seen % RECORDS_AT_ONCE and self.work.spent():
                yield None
        return records
