"""Topics of many partitions: their batch is built in steps before it is decided upon, and its records are taken over at
once. The batch is still one: there is a topic with all its partitions, or there is none.

Rule. What was built counts only if the decision, taken when it is appended, is the same.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from coordinator.cluster.framing import framed
from coordinator.cluster.leaders import Leaders
from coordinator.cluster.records import PartitionRecord
from coordinator.machine import Record
from protocol.records.record import GrowingBatch, NewRecord

WIDE = 64
"""From how many new partitions on: fewer are a millisecond or two."""
STEP_RECORDS = 16


@dataclass(frozen=True, slots=True)
class WideBatch:
    """A batch as it will stand in the log: records of any kind, then new partitions of one topic."""

    batch: bytes
    head: Sequence[bytes]
    """The records before the partitions."""
    topic_id: bytes
    indexes: range
    leaders: Leaders
    """Those of the partitions, in their order."""
    partition_bytes: int
    """What the records of the partitions come to."""
    timestamp_ms: int


def building(
    head: Iterable[object], topic_id: bytes, partitions: Iterable[PartitionRecord], indexes: range, timestamp_ms: int
) -> Generator[None, None, WideBatch]:
    """Some records in each step."""
    growing = GrowingBatch(timestamp_ms)
    frames = [record.value or b"" for record in framed(head)]
    for frame in frames:
        growing.add(NewRecord(value=frame, timestamp_ms=timestamp_ms))
    leaders, partition_bytes = Leaders(), 0
    for number, message in enumerate(partitions, 1):
        record: Record = framed([message])[0]
        growing.add(NewRecord(value=record.value, timestamp_ms=timestamp_ms))
        partition_bytes += len(record.value or b"")
        leaders.append(message.leader, message.leader_epoch)
        if number % STEP_RECORDS == 0:
            yield
    return WideBatch(growing.whole(), frames, topic_id, indexes, leaders, partition_bytes, timestamp_ms)
