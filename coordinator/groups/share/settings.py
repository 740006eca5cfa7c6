"""The settings of share groups. Those that a group may have of its own are asked for by its id."""

from typing import Protocol


class ShareGroupSettings(Protocol):
    """What `broker` supplies from its configuration and from that of groups. Kafka's keys are named."""

    def session_timeout_ms(self, group_id: str) -> int:
        """`share.session.timeout.ms` of the group, or `group.share.session.timeout.ms`."""

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """`share.heartbeat.interval.ms` of the group, or `group.share.heartbeat.interval.ms`."""

    def assignment_interval_ms(self, group_id: str) -> int:
        """`share.assignment.interval.ms` of the group, or `group.share.assignment.interval.ms`."""

    @property
    def max_size(self) -> int:
        """`group.share.max.size`."""

    @property
    def initialize_retry_interval_ms(self) -> int:
        """`group.share.initialize.retry.interval.ms`."""
