"""Records of `__consumer_offsets` about members of groups, as lines of a story.

Topic ids are written as names, the hash of a group's topics as `hash`, for it follows from their ids.
"""

from typing import Any

from coordinator.groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coordinator.groups.records import GroupMetadataKey, GroupMetadataValue
from coordinator.groups.share.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from coordinator.groups.streams.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from coordinator.share_state.records import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from protocol.codec import read_key, read_version, read_versioned
from tests.scenarios.normalise import Names
from tests.scenarios.rendering import structure

GROUP_RECORDS: dict[int, tuple[str, type, type]] = {
    2: ("classic group", GroupMetadataKey, GroupMetadataValue),
    3: ("group", ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: ("partition metadata", ConsumerGroupPartitionMetadataKey, ConsumerGroupMetadataValue),
    5: ("member", ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: ("target", ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: ("target of", ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: ("current of", ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    10: ("member", ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: ("share group", ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: ("target", ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: ("target of", ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: ("current of", ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: ("shared", ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    16: ("expression", ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    17: ("streams group", StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    19: ("member", StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    20: ("target", StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    21: ("target of", StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: ("current of", StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    23: ("topology", StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}


def group_record_lines(names: Names, group: str, key: bytes, value: bytes | None) -> list[str]:
    """The lines of one record; none if it is of another group."""
    kind, key_table, value_table = GROUP_RECORDS[read_version(key)]
    read: Any = read_key(key_table, key)
    if (read.group if kind == "classic group" else read.group_id) != group:
        return []
    what = getattr(read, "member_id", getattr(read, "regular_expression", ""))
    if hasattr(read, "member_id") and what not in names.literals:
        what = names.bound("M", what)
    head = " ".join(part for part in (kind, what) if part)
    if value is None:
        return [f"{head} tombstone"]
    version = read_version(value)
    found: Any = read_versioned(value_table, value)
    if kind in ("group", "share group"):
        return [f"{head} epoch={found.epoch} {'hash' if found.metadata_hash else 'no hash'}"]
    if kind == "streams group":
        settings = " ".join(f"{one.key}={one.value}" for one in found.last_assignment_configs or ())
        validated = f"validated_topology_epoch={found.validated_topology_epoch}"
        return [f"{head} epoch={found.epoch} {'hash' if found.metadata_hash else 'no hash'} {validated} {settings}"]
    if kind == "expression":
        found.version = 0
    lines = list(structure(found, version, names))
    return [f"{head} {lines[0]}", *(f"  {line}" for line in lines[1:])] if lines else [head]


SHARE_RECORDS: dict[int, tuple[str, type, type]] = {
    0: ("snapshot", ShareSnapshotKey, ShareSnapshotValue),
    1: ("update", ShareUpdateKey, ShareUpdateValue),
}


def share_record_lines(names: Names, group: str, key: bytes, value: bytes | None) -> list[tuple[str, str]]:
    """The share partition and the line of one record of `__share_group_state`; none if it is of another group."""
    kind, key_table, value_table = SHARE_RECORDS[read_version(key)]
    read: Any = read_key(key_table, key)
    if read.group_id != group:
        return []
    where = f"{names.topics.get(read.topic_id, 'unknown')}-{read.partition}"
    if value is None:
        return [(where, f"{kind} tombstone")]
    found: Any = read_versioned(value_table, value)
    return [(where, " ".join([kind, *(line.strip() for line in structure(found, read_version(value), names))]))]
