"""What is set for the records of a share group: what the group says of itself, within what the broker allows."""

from collections.abc import Callable, Mapping

from broker.config.broker_config import BrokerConfig
from broker.partitions.share.settings import ShareGroupSettings, StartAt
from coordinator.cluster.keys.share_keys import BY_DURATION, SHARE_GROUP_KEYS, duration_ms


class ConfiguredShareRecords:
    """`ShareGroupSettings` from the configuration of this broker and of groups."""

    def __init__(self, config: BrokerConfig, own: Callable[[str], Mapping[str, str]]) -> None:
        """`own` are the settings that a group has of its own."""
        self._config = config
        self._own = own

    def of(self, group_id: str) -> ShareGroupSettings:
        own = self._own(group_id)
        start = _text(own, "share.auto.offset.reset")
        back_ms = duration_ms(start.removeprefix(BY_DURATION)) if start.startswith(BY_DURATION) else None
        return ShareGroupSettings(
            record_lock_duration_ms=self._number(own, "record.lock.duration.ms"),
            delivery_count_limit=self._number(own, "delivery.count.limit"),
            max_record_locks=self._number(own, "partition.max.record.locks"),
            read_committed=_text(own, "share.isolation.level") == "read_committed",
            renew_allowed=_text(own, "share.renew.acknowledge.enable").lower() == "true",
            start_at=StartAt(start) if back_ms is None else StartAt.TIMESTAMP,
            back_ms=back_ms or 0,
        )

    def _number(self, own: Mapping[str, str], name: str) -> int:
        value = own.get(f"share.{name}")
        if value is None:
            return self._config.get_int(f"group.share.{name}")
        least = self._config.get_int(f"group.share.min.{name}")
        return min(max(int(value), least), self._config.get_int(f"group.share.max.{name}"))


def _text(own: Mapping[str, str], name: str) -> str:
    value = own.get(name, SHARE_GROUP_KEYS[name].default)
    assert value is not None
    return value
