"""A partition that counts what clients wrote and read, where the broker is watched. Others pay nothing for it."""

from collections.abc import Callable

from broker.config.topic_config import TopicConfig
from broker.partitions.owned_partition import OwnedPartition
from broker.partitions.partition import Partition
from broker.partitions.read import FetchedData
from coordinator.machine import Marker
from storage.log import Log


class MeasuredPartition(OwnedPartition):
    """See the head of this file. Numbers only grow."""

    def __init__(
        self,
        *,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        leader_epoch: int,
        config: TopicConfig,
        now_ms: Callable[[], int],
        producer_expiration_ms: Callable[[], int],
        on_written: Callable[[Partition], None],
        durable_appends: bool,
    ) -> None:
        super().__init__(
            topic=topic,
            topic_id=topic_id,
            index=index,
            log=log,
            leader_epoch=leader_epoch,
            config=config,
            now_ms=now_ms,
            producer_expiration_ms=producer_expiration_ms,
            on_written=on_written,
            durable_appends=durable_appends,
        )
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
