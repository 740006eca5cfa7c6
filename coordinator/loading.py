"""Replaying a log into a new machine, in steps that are short whatever the log holds.

Rule 1. Reads go to the end of the log, not to what is durable: answers wait for that anyway.
Rule 2. A read that returns nothing before the end is a gap that compaction left, and the end of loading (KAFKA-9065).
Rule 3. Of a log that is compacted by key, a record is passed over where a later one of the same key is in memory
        with it, both of no transaction: compaction might have removed it already, so no machine depends on it. A
        tombstone is not: what stands behind it does not say what it has removed.
Rule 4. What cannot be opened or attributed to a key raises `UnreadableLog`: it may concern any key of the log.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from coordinator.machine import ProducerStamp, ReplayedMarker, ReplayedRecord
from protocol.records.batch import CorruptRecords, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import body_of, records_in
from protocol.schema import Buffer


class UnreadableLog(CorruptRecords):
    """A batch that cannot be opened though its checksum is right, or a key that cannot be read."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


Entry = ReplayedRecord | ReplayedMarker

STEP_RECORDS = 32
"""How many records are read or replayed in one step: some hundred microseconds."""
STEP_BATCHES = 16
"""How many batches, however few records they have."""
READ_BYTES = 64 << 10
"""A read, with its look at the checksums, is a step of its own: a millisecond where the batches are small."""


class ReadableLog(Protocol):
    """The part of a `coordinator.ports.ShardLog` that loading uses."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def read(self, offset: int, max_bytes: int) -> list[Buffer] | None: ...


def replaying(
    log: ReadableLog, replay: Callable[[Entry], None], *, max_bytes: int, compacted: bool = False
) -> Iterator[None]:
    """Call `replay` for everything the log holds, about `max_bytes` of it in memory at a time. Between two steps others
    may have a turn; nothing may be appended meanwhile."""
    position = log.start_offset
    while position < log.end_offset:
        window = _Window(compacted)
        end = yield from _filling(window, log, position, max_bytes)
        if end == position:
            return
        for number, entry in enumerate(window.entries):
            if entry is not None:
                replay(entry)
            if number % STEP_RECORDS == 0:
                yield
        position = end


def _filling(window: "_Window", log: ReadableLog, position: int, max_bytes: int) -> Generator[None, None, int]:
    """Read into the window from a position on. Returns where that ended: where it began, if there is nothing."""
    left, batches = max_bytes, 0
    while left > 0 and position < log.end_offset:
        end = position
        while (found := log.read(position, min(left, READ_BYTES))) is None:
            yield
        for data in found:
            left -= len(data)
            for entry, next_offset in entries_of(data):
                if next_offset is not None:
                    end = next_offset
                    batches += 1
                    if batches % STEP_BATCHES == 0:
                        yield
                elif entry is not None and entry.offset >= position and window.add(entry) % STEP_RECORDS == 0:
                    yield
        if end == position:
            break
        position = end
        yield
    return position


class _Window:
    """What one read brought, in order; None where a later record stands for it."""

    __slots__ = ("_compacted", "_latest", "entries")

    def __init__(self, compacted: bool) -> None:
        self.entries: list[Entry | None] = []
        self._compacted = compacted
        self._latest: dict[bytes, int] = {}

    def add(self, entry: Entry) -> int:
        """Returns how many there are now."""
        entries = self.entries
        if self._compacted and isinstance(entry, ReplayedRecord) and entry.stamp is None:
            superseded = self._latest.get(entry.key)
            if superseded is not None:
                entries[superseded] = None
            if entry.value is None:
                self._latest.pop(entry.key, None)  # It also takes what open transactions have written before.
            else:
                self._latest[entry.key] = len(entries)
        entries.append(entry)
        return len(entries)


def entries_of(data: Buffer) -> Iterator[tuple[Entry | None, int | None]]:
    """What a run of batches says: each entry, and after each batch the offset of the next one.

    Raises `UnreadableLog` where a batch cannot be opened, after what could be read of it.
    Control batches other than the end of a transaction say nothing here; empty batches are legal (KAFKA-7467).
    """
    for position, header in headers_in(data):
        stamp = ProducerStamp(header.producer_id, header.producer_epoch) if header.is_transactional else None
        offset = header.base_offset
        try:
            if header.is_control:
                end = read_end_transaction(data, position) if header.records_count and stamp is not None else None
                if end is not None and stamp is not None:
                    yield ReplayedMarker(offset, header.max_timestamp, stamp, end.commit), None
            else:
                for record in records_in(header, body_of(header, data, position)):
                    key, offset = record.key or b"", record.offset + 1
                    yield ReplayedRecord(record.offset, record.timestamp_ms, stamp, key, record.value), None
        except CorruptRecords as error:
            raise UnreadableLog(offset, str(error)) from error
        yield None, header.next_offset
