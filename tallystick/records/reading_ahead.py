"""What became of records that are read on and on: to find the end of a transaction the log is read ahead, once. Of what
is read ahead nothing is kept but markers. Where there is none up to the high watermark, the transaction is open.
"""

from protocol.messages.fetch import PartitionData
from protocol.records.batch import BatchHeader
from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.client.lease import persistently
from tallystick.client.reading import joined
from tallystick.inspection.places import Place
from tallystick.records.fates import Fate, Markers

_PATIENCE_S = 30.0


class Fates:
    """Those of one partition, asked for in the order of the log."""

    def __init__(self, client: Client, place: Place) -> None:
        self._client = client
        self._place = place
        self._markers = Markers()

    def see(self, data: bytes) -> None:
        """Note the markers of fetched batches."""
        self._markers.see(data)

    async def of(self, header: BatchHeader, high_watermark: int) -> Fate:
        """Of a batch that `see` was shown."""
        while (found := self._markers.fate(header)) is None and self._markers.seen_to < high_watermark:
            if not await self._read_ahead():
                break
        return Fate.OPEN if found is None else found

    async def _read_ahead(self) -> bool:
        """Whether there was more."""
        fetched = await persistently(self._client, self._fetch_ahead, patience_s=_PATIENCE_S)
        before = self._markers.seen_to
        self._markers.see(joined(fetched))
        return self._markers.seen_to > before

    async def _fetch_ahead(self) -> PartitionData:
        fetched = await self._client.fetch(*self._place, self._markers.seen_to)
        check(fetched.error_code, f"{self._place[0]}-{self._place[1]}")
        return fetched
