"""How far a group is behind, in offsets and in records that it would be shown.

The two differ: control records of transactions, aborted records and what a compaction took away have offsets and are
shown to nobody. Who has read everything of a topic with transactions may be behind by the offset of the last marker.
"""

from dataclasses import dataclass
from enum import Enum

from protocol.errors import ErrorCode
from protocol.records.batch import headers_in
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError, check
from tallystick.client.reading import joined, visible_records
from tallystick.inspection.groups import committed
from tallystick.inspection.places import Ends, Failed, Place, ends_of, existing

COUNTED_OFFSETS = 100_000
"""Of one partition: so far records are read to be counted."""
_FETCHED_BYTES = 50 << 20


class Standing(Enum):
    """How a committed offset lies to its partition."""

    BEHIND = "behind"
    DONE = "done"
    """There is nothing that it would be shown."""
    BEFORE_START = "before the start"
    """What it was to read next is deleted."""
    BEYOND_END = "beyond the end"
    """The topic was made again, or its log cut."""
    NO_TOPIC = "no such partition"


@dataclass(frozen=True, slots=True)
class Lag:
    """Of one partition."""

    place: Place
    committed: int
    ends: Ends | None
    records: int | None
    """That a reader of committed records would be shown now; None where they were too many to be counted."""

    @property
    def offsets(self) -> int:
        """As Kafka's tools count: up to the high watermark."""
        return max(0, self.ends.high_watermark - self.committed) if self.ends else 0

    @property
    def held(self) -> int:
        """Offsets that no reader of committed records is shown before a transaction has ended."""
        if self.ends is None:
            return 0
        return max(0, self.ends.high_watermark - max(self.ends.last_stable_offset, self.committed))

    @property
    def standing(self) -> Standing:
        if self.ends is None:
            return Standing.NO_TOPIC
        if self.committed < self.ends.start:
            return Standing.BEFORE_START
        if self.committed > self.ends.high_watermark:
            return Standing.BEYOND_END
        return Standing.DONE if self.records == 0 else Standing.BEHIND


class _Budget:
    """How many bytes may still be fetched."""

    def __init__(self, most_bytes: int | None) -> None:
        self._left = most_bytes

    @property
    def is_spent(self) -> bool:
        return self._left is not None and self._left <= 0

    @property
    def for_a_fetch(self) -> int:
        return _FETCHED_BYTES if self._left is None else min(self._left, _FETCHED_BYTES)

    def spend(self, fetched_bytes: int) -> None:
        if self._left is not None:
            self._left -= fetched_bytes


async def lags(
    client: Client,
    group: str,
    *,
    count_up_to: int = COUNTED_OFFSETS,
    most_bytes: int | None = None,
    failed: Failed | None = None,
) -> list[Lag]:
    """Of each partition that the group has committed an offset of, in order. Where `most_bytes` were fetched in all,
    records of what is left are not counted."""
    offsets = await committed(client, group)
    here = await existing(client, sorted(offsets))
    ends = await ends_of(client, here, failed)
    found, budget = [], _Budget(most_bytes)
    for place, offset in sorted(offsets.items()):
        if failed and place in failed:
            continue
        its = ends.get(place)
        records = None if its is None else await _records(client, place, offset, its, count_up_to, budget)
        found.append(Lag(place, offset, its, records))
    return found


async def _records(client: Client, place: Place, offset: int, ends: Ends, most: int, budget: _Budget) -> int | None:
    at, end = max(offset, ends.start), ends.last_stable_offset
    if end - at > most:
        return None
    shown = 0
    while at < end:
        if budget.is_spent:
            return None
        fetched = await client.fetch(*place, at, read_committed=True, max_bytes=budget.for_a_fetch)
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted meanwhile
            return None
        check(fetched.error_code, f"{place[0]}-{place[1]}")
        data = joined(fetched)
        budget.spend(len(data))
        aborted = fetched.aborted_transactions or []
        shown += sum(1 for record in visible_records(data, aborted, at) if record.offset < end)
        behind = max((header.next_offset for _, header in headers_in(data)), default=at)
        if behind <= at:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"nothing to read at {at} of {place[0]}-{place[1]}")
        at = behind
    return shown
