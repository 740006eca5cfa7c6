"""Settings of streams groups: what a group says of itself, within what the broker allows."""

from broker.coordination.consumer_groups.settings import GroupsOfOneKind


class ConfiguredStreamsGroups(GroupsOfOneKind):
    """`StreamsGroupSettings`."""

    kind = "streams"

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "initial.rebalance.delay.ms")

    def standby_replicas(self, group_id: str) -> int:
        return min(self._of_group(group_id, "num.standby.replicas"), self._of_broker("max.standby.replicas"))
