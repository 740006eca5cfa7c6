"""Records of consumer groups, made in the versions that Kafka 4.3 writes."""

from collections.abc import Iterator

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.groups.consumer.member import ConsumerMember, Partitions
from coordinator.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
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
    CurrentTopicPartitions,
    TargetTopicPartition,
)
from coordinator.machine import Record
from protocol.codec import versioned, versioned_key


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group has another epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(versioned_key(ConsumerGroupMetadataKey(group_id=group_id)), versioned(value, 0))


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """What a member has said of itself."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=one) for name, one in classic.protocols],
        ),
    )
    return Record(_member_key(group_id, member.member_id), versioned(value, 0))


def _member_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_assignment(group_id: str, member_id: str, target: Assignment) -> Record:
    """What a member is to have."""
    partitions = [
        TargetTopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)
    ]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return Record(_target_key(group_id, member_id), versioned(value, 0))


def _target_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The target assignments are those of this epoch of the group."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(versioned_key(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)), versioned(value, 0))


def current_assignment(group_id: str, member: ConsumerMember) -> Record:
    """What a member has."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current(member.assigned),
        partitions_pending_revocation=_current(member.revoking),
    )
    return Record(_current_key(group_id, member.member_id), versioned(value, 0))


def _current_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def _current(partitions: Partitions) -> list[CurrentTopicPartitions]:
    written = []
    for topic_id in sorted(partitions):
        epochs = partitions[topic_id]
        indexes = sorted(epochs)
        written.append(
            CurrentTopicPartitions(
                topic_id=topic_id, partitions=indexes, assignment_epochs=[epochs[index] for index in indexes]
            )
        )
    return written


def regular_expression(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """The topics that an expression stands for."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return Record(_regex_key(group_id, regex), versioned(value, 0))


def _regex_key(group_id: str, regex: str) -> bytes:
    return versioned_key(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Nobody asks for this expression any more."""
    return Record(_regex_key(group_id, regex), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """What an older release wrote is not needed."""
    return Record(versioned_key(ConsumerGroupPartitionMetadataKey(group_id=group_id)), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """A member is gone."""
    return [
        Record(_current_key(group_id, member_id), None),
        Record(_target_key(group_id, member_id), None),
        Record(_member_key(group_id, member_id), None),
    ]


def consumer_group_tombstones(group: ConsumerGroup, *, instead: dict[str, str] | None = None) -> Iterator[Record]:
    """The group is gone, the record of the group itself last. `instead` names members by the ids that records before
    these, in the same batch, have given them."""
    group_id = group.group_id
    member_ids = [(instead or {}).get(member_id, member_id) for member_id in group.members]
    yield from (Record(_current_key(group_id, member_id), None) for member_id in member_ids)
    yield from (Record(_target_key(group_id, member_id), None) for member_id in member_ids)
    yield Record(versioned_key(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)), None)
    yield from (Record(_member_key(group_id, member_id), None) for member_id in member_ids)
    yield from (regex_tombstone(group_id, regex) for regex in group.resolved)
    yield partition_metadata_tombstone(group_id)
    yield Record(versioned_key(ConsumerGroupMetadataKey(group_id=group_id)), None)


def whole_group(group: ConsumerGroup) -> Iterator[Record]:
    """A group that was made of a classic one."""
    group_id = group.group_id
    yield from (member_metadata(group_id, member) for member in group.members.values())
    yield group_epoch(group_id, group.epoch, group.metadata_hash)
    yield from (target_assignment(group_id, member_id, group.targets[member_id]) for member_id in group.members)
    yield assignment_epoch(group_id, group.epoch, group.assignment_timestamp_ms)
    yield from (current_assignment(group_id, member) for member in group.members.values())
