"""Settings of share groups: what a group says of itself, within what the broker allows."""

from broker.coordination.consumer_groups.settings import GroupsOfOneKind


class ConfiguredShareGroups(GroupsOfOneKind):
    """`ShareGroupSettings` of the group coordinator."""

    kind = "share"

    @property
    def initialize_retry_interval_ms(self) -> int:
        return self._of_broker("initialize.retry.interval.ms")
