"""The settings of streams groups. Those that a group may have of its own are asked for by its id."""

from typing import Protocol


class StreamsGroupSettings(Protocol):
    """What `broker` supplies from its configuration and from that of groups. Kafka's keys are named."""

    def session_timeout_ms(self, group_id: str) -> int:
        """`streams.session.timeout.ms` of the group, or `group.streams.session.timeout.ms`."""

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """`streams.heartbeat.interval.ms` of the group, or `group.streams.heartbeat.interval.ms`."""

    def assignment_interval_ms(self, group_id: str) -> int:
        """`streams.assignment.interval.ms` of the group, or `group.streams.assignment.interval.ms`."""

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        """`streams.initial.rebalance.delay.ms` of the group, or `group.streams.initial.rebalance.delay.ms`."""

    def standby_replicas(self, group_id: str) -> int:
        """`streams.num.standby.replicas` of the group, or `group.streams.num.standby.replicas`."""

    @property
    def max_size(self) -> int:
        """`group.streams.max.size`."""
