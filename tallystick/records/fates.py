"""What became of the transaction of a record: committed, aborted, or open when it was looked at.

A marker ends all that its producer wrote before it in its partition. So the fate of a batch is that of the first
marker of its producer behind it; where there is none up to the high watermark, its transaction is open. To find it the
log is read ahead, once; of what is read ahead nothing is kept but markers.
"""

from bisect import bisect_right
from enum import Enum

from protocol.messages.fetch import PartitionData
from protocol.records.batch import BatchHeader, headers_in
from protocol.records.control import EndTransaction, read_end_transaction
from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.client.lease import persistently
from tallystick.client.reading import joined
from tallystick.inspection.places import Place

_PATIENCE_S = 30.0


class Fate(Enum):
    """Of a record."""

    NONE = "-"
    """It was written in no transaction."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    CONTROL = "control"
    """It is a control record: it ends a transaction, and no consumer is shown it."""


class Fates:
    """Those of one partition, asked for in the order of the log."""

    def __init__(self, client: Client, place: Place) -> None:
        self._client = client
        self._place = place
        self._seen_to = -1
        """Markers before this offset are known."""
        self._markers: dict[int, list[tuple[int, bool]]] = {}
        """By producer id: (offset, whether it commits), in order."""

    def see(self, data: bytes) -> None:
        """Note the markers of fetched batches."""
        for position, header in headers_in(data):
            if header.base_offset < self._seen_to:
                continue
            self._seen_to = header.next_offset
            ended = read_end_transaction(data, position) if header.is_control else None
            if ended is not None:
                self._markers.setdefault(header.producer_id, []).append((header.base_offset, ended.commit))

    async def of(self, header: BatchHeader, high_watermark: int) -> Fate:
        """Of a batch that `see` was shown."""
        if header.is_control:
            return Fate.CONTROL
        if not header.is_transactional:
            return Fate.NONE
        while (found := self._known(header)) is None and self._seen_to < high_watermark:
            if not await self._read_ahead():
                break
        return Fate.OPEN if found is None else Fate.COMMITTED if found else Fate.ABORTED

    def _known(self, header: BatchHeader) -> bool | None:
        markers = self._markers.get(header.producer_id, [])
        passed = bisect_right(markers, header.last_offset, key=lambda marker: marker[0])
        del markers[:passed]  # batches are asked for in order
        return markers[0][1] if markers else None

    async def _read_ahead(self) -> bool:
        """Whether there was more."""
        fetched = await persistently(self._client, self._fetch_ahead, patience_s=_PATIENCE_S)
        before = self._seen_to
        self.see(joined(fetched))
        return self._seen_to > before

    async def _fetch_ahead(self) -> PartitionData:
        fetched = await self._client.fetch(*self._place, self._seen_to)
        check(fetched.error_code, f"{self._place[0]}-{self._place[1]}")
        return fetched


def marker_name(ended: EndTransaction | None) -> str:
    """As Kafka's tools call control records."""
    return "OTHER" if ended is None else "COMMIT" if ended.commit else "ABORT"
