"""How many records a reader of committed records would be shown from an offset on, as `tallystick explain lag` counts
them: without control records and those of aborted transactions, up to the last stable offset.

Their headers say it, so headers are read: what is counted once is not counted again, and a scrape reads so much at most
that nobody waits for it. What it did not come to is counted on by the next one.
"""

from dataclasses import dataclass

from broker.partitions.partition import Partition
from broker.partitions.read import FetchedData
from protocol.records.aborting import Aborting
from protocol.records.batch import CorruptRecords, headers_in
from protocol.records.control import read_end_transaction
from protocol.schema import Buffer
from storage.log import LogDamaged, OffsetOutOfRange, StorageFailed
from storage.producers.aborted import AbortedTransaction

COUNTED_OFFSETS = 100_000
"""So far a lag is counted in records."""
READ_BYTES, LARGEST_BATCH_BYTES = 16 << 10, 2 << 20
"""At once; where one batch is larger, and what lies behind one that is larger still is not counted."""
MOST_READ_BYTES = 8 << 20
"""In one scrape."""

Key = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True)
class _Count:
    """Of what lies between two offsets of a topic."""

    topic_id: bytes
    start: int
    reached: int
    records: int


class CountedRecords:
    """What was counted so far, for the offsets that were told in the last scrape."""

    def __init__(self) -> None:
        self._counts: dict[Key, _Count] = {}
        self._before: dict[Key, _Count] = {}
        self.left_bytes = 0
        self.first = 0
        """Which of the lines is counted first: one that had no turn the last time."""

    def begin(self) -> None:
        """A scrape: what it does not ask for is forgotten by the next one."""
        self._before, self._counts, self.left_bytes = self._counts, {}, MOST_READ_BYTES

    def step(self, key: Key, topic_id: bytes, partition: Partition, committed: int) -> int | None:
        """One read towards the number; None where there is more to be read. -1 where it is not counted."""
        start, end = max(committed, partition.log_start_offset), partition.last_stable_offset
        if end - start > COUNTED_OFFSETS:
            return -1
        count = self._counts.get(key) or self._before.get(key)
        if count is None or (count.topic_id, count.start) != (topic_id, start) or count.reached > max(start, end):
            count = _Count(topic_id, start, start, 0)
        self._counts[key] = count
        if count.reached >= end:
            return count.records
        if self.left_bytes <= 0:
            return -1
        try:
            found = _read(partition, count.reached)
            size, reached = found.size_bytes, count.reached
            for data in found.records:
                records, reached = _shown(data, found.aborted or [], reached, end)
                count.records += records
        except (OffsetOutOfRange, LogDamaged, StorageFailed, CorruptRecords, OSError):
            return -1
        self.left_bytes -= max(size, 1)
        if reached <= count.reached:
            return -1
        count.reached = reached
        return count.records if reached >= end else None


def _read(partition: Partition, offset: int) -> FetchedData:
    """Not as it is read for clients: what they are sent is counted."""
    found = FetchedData([], 0, 0, 0, None)
    for size in (READ_BYTES, LARGEST_BATCH_BYTES):
        found = Partition.read(partition, offset, size, read_committed=True, at_least_one=False)
        if found.records:
            break
    return found


def _shown(data: Buffer, aborted: list[AbortedTransaction], start: int, end: int) -> tuple[int, int]:
    """How many of these batches' records, and where they end."""
    aborting, records, reached = Aborting(aborted), 0, start
    for position, header in headers_in(data):
        marker = read_end_transaction(data, position) if header.is_control else None
        is_aborted = aborting.take(header, ends=marker is not None and not marker.commit)
        reached = header.next_offset
        if not header.is_control and not is_aborted and reached > start:
            # Of a batch that begins before, or was compacted, at most as many are left as it has offsets behind.
            records += min(header.records_count, min(reached, end) - max(header.base_offset, start))
    return records, max(reached, start)
