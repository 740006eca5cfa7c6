"""Settings of streams groups: what a group says of itself, within what the broker allows."""

from collections.abc import Callable, Mapping

from broker.config.broker_config import BrokerConfig


class ConfiguredStreamsGroups:
    """`StreamsGroupSettings` from the configuration of this broker and of groups."""

    def __init__(self, config: BrokerConfig, own: Callable[[str], Mapping[str, str]]) -> None:
        """`own` are the settings that a group has of its own."""
        self._config = config
        self._own = own

    def session_timeout_ms(self, group_id: str) -> int:
        return self._bounded(group_id, "session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._bounded(group_id, "heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._bounded(group_id, "assignment.interval.ms")

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "initial.rebalance.delay.ms")

    def standby_replicas(self, group_id: str) -> int:
        most = self._config.get_int("group.streams.max.standby.replicas")
        return min(self._of_group(group_id, "num.standby.replicas"), most)

    def _of_group(self, group_id: str, name: str) -> int:
        own = self._own(group_id).get(f"streams.{name}")
        return self._config.get_int(f"group.streams.{name}") if own is None else int(own)

    def _bounded(self, group_id: str, name: str) -> int:
        """What the group says, within what the broker allows now."""
        own = self._own(group_id).get(f"streams.{name}")
        if own is None:
            return self._config.get_int(f"group.streams.{name}")
        least = self._config.get_int(f"group.streams.min.{name}")
        return min(max(int(own), least), self._config.get_int(f"group.streams.max.{name}"))

    @property
    def max_size(self) -> int:
        return self._config.get_int("group.streams.max.size")
