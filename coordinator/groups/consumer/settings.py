"""The settings of consumer groups. Those that a group may have of its own are asked for by its id."""

from typing import Protocol


class ConsumerGroupSettings(Protocol):
    """What `broker` supplies from its configuration and from that of groups. Kafka's keys are named."""

    def session_timeout_ms(self, group_id: str) -> int:
        """`consumer.session.timeout.ms` of the group, or `group.consumer.session.timeout.ms`."""

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """`consumer.heartbeat.interval.ms` of the group, or `group.consumer.heartbeat.interval.ms`."""

    def assignment_interval_ms(self, group_id: str) -> int:
        """`consumer.assignment.interval.ms` of the group, or `group.consumer.assignment.interval.ms`."""

    @property
    def max_size(self) -> int:
        """`group.consumer.max.size`."""

    @property
    def assignors(self) -> tuple[str, ...]:
        """`group.consumer.assignors`; the first is that of groups whose members name none."""

    @property
    def migration_policy(self) -> str:
        """`group.consumer.migration.policy`: disabled, upgrade, downgrade or bidirectional."""

    @property
    def regex_refresh_interval_ms(self) -> int:
        """`group.consumer.regex.refresh.interval.ms`."""
