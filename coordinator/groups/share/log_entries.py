"""Records of share groups, made in the versions that Kafka 4.3 writes."""

from collections.abc import Iterator, Mapping

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.share.group import SharedTopics, ShareGroup
from coordinator.groups.share.member import ShareMember
from coordinator.groups.share.records import (
    SharedTopicName,
    SharedTopicPartitions,
    SharedTopicState,
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
from coordinator.machine import Record
from protocol.codec import versioned, versioned_key

STABLE = 0
"""The only state that a member has."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group has another epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(versioned_key(ShareGroupMetadataKey(group_id=group_id)), versioned(value, 0))


def member_metadata(group_id: str, member: ShareMember) -> Record:
    """What a member has said of itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return Record(_member_key(group_id, member.member_id), versioned(value, 0))


def _member_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_assignment(group_id: str, member_id: str, target: Assignment) -> Record:
    """What a member is to have."""
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=_partitions(target))
    return Record(_target_key(group_id, member_id), versioned(value, 0))


def _target_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The target assignments are those of this epoch of the group."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(versioned_key(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)), versioned(value, 0))


def current_assignment(group_id: str, member: ShareMember) -> Record:
    """What a member has."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=_partitions(member.assigned),
    )
    return Record(_current_key(group_id, member.member_id), versioned(value, 0))


def _current_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def _partitions(assignment: Assignment) -> list[SharedTopicPartitions]:
    return [
        SharedTopicPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
        for topic_id in sorted(assignment)
    ]


def shared_partitions(
    group_id: str, initializing: SharedTopics, initialized: SharedTopics, deleting: Mapping[bytes, str]
) -> Record:
    """What the share coordinator keeps for the group, or is asked to keep or to forget."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_states(initializing),
        initialized_topics=_states(initialized),
        deleting_topics=[
            SharedTopicName(topic_id=topic_id, topic_name=deleting[topic_id]) for topic_id in sorted(deleting)
        ],
    )
    return Record(versioned_key(ShareGroupStatePartitionMetadataKey(group_id=group_id)), versioned(value, 0))


def _states(topics: SharedTopics) -> list[SharedTopicState]:
    return [
        SharedTopicState(
            topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(topics[topic_id].partitions)
        )
        for topic_id in sorted(topics)
    ]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """A member is gone."""
    return [
        Record(_current_key(group_id, member_id), None),
        Record(_target_key(group_id, member_id), None),
        Record(_member_key(group_id, member_id), None),
    ]


def share_group_tombstones(group: ShareGroup) -> Iterator[Record]:
    """The group is gone, the record of the group itself last."""
    group_id = group.group_id
    for member_id in group.members:
        yield from member_tombstones(group_id, member_id)
    yield Record(versioned_key(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)), None)
    yield Record(versioned_key(ShareGroupStatePartitionMetadataKey(group_id=group_id)), None)
    yield Record(versioned_key(ShareGroupMetadataKey(group_id=group_id)), None)
