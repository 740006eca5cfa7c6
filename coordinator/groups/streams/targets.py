"""The target of a streams group: who is to have what, computed anew when the group has changed."""

from collections.abc import Mapping

from coordinator.groups.assignors.sticky import Work, Worker, assign_sticky
from coordinator.groups.streams.configured import ConfiguredTopology
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.log_entries import assignment_epoch, target_assignment
from coordinator.groups.streams.member import NO_TASKS, StreamsMember, Tasks
from coordinator.groups.streams.topology import Topology
from coordinator.machine import Record

STANDBY_REPLICAS = "num.standby.replicas"
"""The one setting of the assignor, as it stands in the record of a group."""


def new_targets(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    topology: Topology,
    configured: ConfiguredTopology,
    standby_replicas: int,
) -> dict[str, Tasks]:
    """What each of these members is to have: nothing, as long as topics are not as they must be."""
    if not configured.is_ready:
        return dict.fromkeys(members, NO_TASKS)
    stateful = frozenset(one.subtopology_id for one in topology.subtopologies if one.changelogs)
    workers = {
        member_id: Worker(member.process_id, group.target_of(member_id)) for member_id, member in members.items()
    }
    return assign_sticky(workers, Work(configured.tasks, stateful, standby_replicas))


def records_of_targets(group: StreamsGroup, targets: Mapping[str, Tasks], epoch: int, now_ms: int) -> list[Record]:
    """What has to be written for members to have these targets."""
    records = [
        target_assignment(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if group.targets.get(member_id) != target
    ]
    return [*records, assignment_epoch(group.group_id, epoch, now_ms)]
