"""A partition that counts what clients wrote and read, where the broker is watched. Others pay nothing for it."""

from broker.partitions.owned_partition import OwnedPartition
from broker.partitions.read import FetchedData
from coordinator.machine import Marker


class MeasuredPartition(OwnedPartition):
    """See the head of this file. Numbers only grow."""

    def _opened(self) -> None:
        self._opened_at = self.end_offset
        self._markers = 0
        self.bytes_out = 0

    @property
    def records_in(self) -> int:
        """Since it was opened: each has an offset, and but for markers nothing else has."""
        return self.end_offset - self._opened_at - self._markers

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        """As any partition."""
        offset = super().append_marker(marker, now_ms)
        self._markers += 1
        return offset

    def read(
        self, offset: int, max_bytes: int, *, read_committed: bool, at_least_one: bool = True, to_send: bool = False
    ) -> FetchedData:
        """As any partition; what it found is taken for sent."""
        found = super().read(
            offset, max_bytes, read_committed=read_committed, at_least_one=at_least_one, to_send=to_send
        )
        if found.records:
            self.bytes_out += found.size_bytes
        return found
