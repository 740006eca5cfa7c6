"""Records of many partitions: as far as they were there when it began, or on and on.

Rule 1. Records of a partition come in its order, and none twice; partitions take turns.
Rule 2. What passes by itself (a leader that moves, a broker that is started again) is waited for, up to a patience.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from protocol.messages.fetch import PartitionData
from protocol.records.batch import BatchHeader, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import Record, records_of
from tallystick.client.background import monotonic_s
from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.client.fetching import fetch_many
from tallystick.client.lease import persistently
from tallystick.client.reading import joined, visible_records
from tallystick.inspection.places import Place, by_leader
from tallystick.records.fates import Fate, marker_name
from tallystick.records.reading_ahead import Fates

PATIENCE_S = 30.0
_WAIT_MS = 500
_LOOK_EVERY_S = 5.0
"""Topics may be given more partitions."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, and what is known of it."""

    place: Place
    record: Record
    fate: Fate
    """`COMMITTED` is said of no record that was read as committed: it may as well be in no transaction."""
    producer_id: int = -1
    marker: str = ""
    """COMMIT, ABORT or OTHER, of a control record."""
    key_schema: int | None = None
    value_schema: int | None = None
    """By which it was read (`with_schemas`): then it is JSON."""


class Reader:
    """See the head of this file. `ends`: exclusive; None follows."""

    def __init__(
        self,
        client: Client,
        begins: Mapping[Place, int],
        ends: Mapping[Place, int] | None,
        *,
        read_committed: bool,
        with_control: bool = False,
        look_for_more: Callable[[], Coroutine[Any, Any, Mapping[Place, int]]] | None = None,
    ) -> None:
        """`look_for_more`: partitions and where to begin in them, asked for now and then; those that are known by then
        go on as they are."""
        self.positions = dict(begins)
        """The next offset of each partition."""
        self._client = client
        self._ends = ends
        self._read_committed = read_committed
        self._with_control = with_control
        self._fates = {place: Fates(client, place) for place in begins}
        self._turns = list(begins)
        self._look_for_more = look_for_more
        self._looked_at_s = monotonic_s()

    async def pieces(self) -> AsyncIterator[tuple[Place, list[Seen]]]:
        """Records of one partition at a time, what was not asked for left out; a piece may be empty."""
        while wanted := [place for place in self._turns if not self._is_done(place)]:
            if self._look_for_more is not None and monotonic_s() - self._looked_at_s >= _LOOK_EVERY_S:
                wanted += await self._more(self._look_for_more)
            fetched = await persistently(self._client, partial(self._fetch, wanted), patience_s=PATIENCE_S)
            for place, found in fetched.items():
                data = joined(found)
                if data:
                    self._turns.remove(place)
                    self._turns.append(place)
                    yield place, await self._seen(place, found, data)

    async def _more(self, look_for_more: Callable[[], Coroutine[Any, Any, Mapping[Place, int]]]) -> list[Place]:
        found = await persistently(self._client, look_for_more, patience_s=PATIENCE_S)
        new = {place: begin for place, begin in found.items() if place not in self.positions}
        self.positions |= new
        self._fates |= {place: Fates(self._client, place) for place in new}
        self._turns += new
        self._looked_at_s = monotonic_s()
        return list(new)

    def _is_done(self, place: Place) -> bool:
        return self._ends is not None and self.positions[place] >= self._ends[place]

    async def _fetch(self, wanted: list[Place]) -> dict[Place, PartitionData]:
        groups = [group async for group in by_leader(self._client, wanted)]
        answers = await asyncio.gather(
            *(
                fetch_many(
                    self._client,
                    leader,
                    {place: self.positions[place] for place in its},
                    read_committed=self._read_committed,
                    max_wait_ms=_WAIT_MS,
                )
                for leader, its in groups
            )
        )
        found: dict[Place, PartitionData] = {}
        for answer in answers:
            for place, one in answer.items():
                check(one.error_code, f"{place[0]}-{place[1]} at {self.positions[place]}")
            self._skip_nothing(answer)
            found |= answer
        return found

    def _skip_nothing(self, answer: Mapping[Place, PartitionData]) -> None:
        """A leader that has nothing of any partition has nothing up to their ends: what was there is compacted away."""
        if self._ends is None or any(joined(one) for one in answer.values()):
            return
        for place, one in answer.items():
            shown_to = one.last_stable_offset if self._read_committed else one.high_watermark
            if shown_to >= self._ends[place]:
                self.positions[place] = self._ends[place]

    async def _seen(self, place: Place, fetched: PartitionData, data: bytes) -> list[Seen]:
        begin = self.positions[place]
        end = None if self._ends is None else self._ends[place]
        if self._read_committed and not self._with_control:
            aborted = fetched.aborted_transactions or []
            seen = [Seen(place, record, Fate.NONE) for record in visible_records(data, aborted, begin)]
        else:
            seen = [one async for one in self._all(place, fetched, data, begin)]
        self.positions[place] = max((header.next_offset for _, header in headers_in(data)), default=begin)
        return [one for one in seen if end is None or one.record.offset < end]

    async def _all(self, place: Place, fetched: PartitionData, data: bytes, begin: int) -> AsyncIterator[Seen]:
        fates = self._fates[place]
        fates.see(data)
        for position, header in headers_in(data):
            fate = await fates.of(header, fetched.high_watermark)
            if self._is_wanted(header, fate):
                for one in _records(place, data, position, header, fate):
                    if one.record.offset >= begin:
                        yield one

    def _is_wanted(self, header: BatchHeader, fate: Fate) -> bool:
        if header.is_control:
            return self._with_control
        return not self._read_committed or fate is not Fate.ABORTED


def _records(place: Place, data: bytes, position: int, header: BatchHeader, fate: Fate) -> Iterator[Seen]:
    marker = marker_name(read_end_transaction(data, position)) if header.is_control else ""
    for record in records_of(data, position):
        yield Seen(place, record, fate, header.producer_id, marker)
