"""Settings of consumer groups: what a group says of itself, within what the broker allows."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from broker.config.broker_config import BrokerConfig


class GroupsOfOneKind:
    """What the configuration of this broker and of groups says of all groups that the broker leads itself."""

    kind: ClassVar[str]
    """How Kafka's keys name these groups."""

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

    @property
    def max_size(self) -> int:
        return self._of_broker("max.size")

    def _of_broker(self, name: str) -> int:
        return self._config.get_int(f"group.{self.kind}.{name}")

    def _of_group(self, group_id: str, name: str) -> int:
        own = self._own(group_id).get(f"{self.kind}.{name}")
        return self._of_broker(name) if own is None else int(own)

    def _bounded(self, group_id: str, name: str) -> int:
        """What the group says, within what the broker allows now. The broker's own word needs no bounds."""
        own = self._own(group_id).get(f"{self.kind}.{name}")
        if own is None:
            return self._of_broker(name)
        return min(max(int(own), self._of_broker(f"min.{name}")), self._of_broker(f"max.{name}"))


class ConfiguredConsumerGroups(GroupsOfOneKind):
    """`ConsumerGroupSettings`."""

    kind = "consumer"

    @property
    def assignors(self) -> tuple[str, ...]:
        return self._config.get_list("group.consumer.assignors")

    @property
    def migration_policy(self) -> str:
        return self._config.get_str("group.consumer.migration.policy").lower()

    @property
    def regex_refresh_interval_ms(self) -> int:
        return self._of_broker("regex.refresh.interval.ms")
