"""The settings a share coordinator reads, at the moment it needs them."""

from typing import Protocol


class ShareStateSettings(Protocol):
    """What `broker` supplies from its configuration. Kafka's key is named in each docstring."""

    @property
    def updates_per_snapshot(self) -> int:
        """share.coordinator.snapshot.update.records.per.snapshot"""

    @property
    def cold_snapshot_interval_ms(self) -> int:
        """share.coordinator.cold.partition.snapshot.interval.ms"""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that `__share_group_state` takes: its max.message.bytes."""
