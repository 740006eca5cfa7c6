"""Settings of consumer groups: what a group says of itself, within what the broker allows."""

from collections.abc import Callable, Mapping

from broker.config.broker_config import BrokerConfig


class ConfiguredConsumerGroups:
    """`ConsumerGroupSettings` from the configuration of this broker and of groups."""

    def __init__(self, config: BrokerConfig, own: Callable[[str], Mapping[str, str]]) -> None:
        """`own` are the settings that a group has of its own."""
        self._config = config
        self._own = own

    def session_timeout_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "assignment.interval.ms")

    def _of_group(self, group_id: str, name: str) -> int:
        """What the group says, within what the broker allows now."""
        own = self._own(group_id).get(f"consumer.{name}")
        if own is None:
            return self._config.get_int(f"group.consumer.{name}")
        least = self._config.get_int(f"group.consumer.min.{name}")
        return min(max(int(own), least), self._config.get_int(f"group.consumer.max.{name}"))

    @property
    def max_size(self) -> int:
        return self._config.get_int("group.consumer.max.size")

    @property
    def assignors(self) -> tuple[str, ...]:
        return self._config.get_list("group.consumer.assignors")

    @property
    def migration_policy(self) -> str:
        return self._config.get_str("group.consumer.migration.policy").lower()

    @property
    def regex_refresh_interval_ms(self) -> int:
        return self._config.get_int("group.consumer.regex.refresh.interval.ms")
