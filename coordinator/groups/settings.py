"""The settings a group coordinator reads, at the moment it needs them: a dynamic change takes effect at once."""

from typing import Protocol

from coordinator.groups.consumer.settings import ConsumerGroupSettings
from coordinator.groups.share.settings import ShareGroupSettings
from coordinator.groups.streams.settings import StreamsGroupSettings


class GroupSettings(Protocol):
    """What `broker` supplies from its configuration. Kafka's key is named in each docstring."""

    @property
    def consumer(self) -> ConsumerGroupSettings:
        """Those of groups of the consumer protocol."""

    @property
    def streams(self) -> StreamsGroupSettings:
        """Those of streams groups."""

    @property
    def share(self) -> ShareGroupSettings:
        """Those of share groups."""

    @property
    def max_size(self) -> int:
        """`group.max.size`."""

    @property
    def min_session_timeout_ms(self) -> int:
        """`group.min.session.timeout.ms`."""

    @property
    def max_session_timeout_ms(self) -> int:
        """`group.max.session.timeout.ms`."""

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """`group.initial.rebalance.delay.ms`; 0 here, for one node has no herd to wait for."""

    @property
    def max_held_bytes(self) -> int:
        """`tallystick.groups.max.bytes`: what the groups of all shards may hold in memory."""

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes`."""

    @property
    def offsets_retention_check_interval_ms(self) -> int:
        """`offsets.retention.check.interval.ms`."""

    @property
    def offset_metadata_max_size(self) -> int:
        """`offset.metadata.max.bytes`."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that `__consumer_offsets` takes: its `max.message.bytes`."""
