"""Records of streams groups, made in the versions that Kafka 4.3 writes."""

from collections.abc import Iterator

from coordinator.groups.streams.group import GroupFacts, StreamsGroup
from coordinator.groups.streams.member import ActiveTasks, StreamsMember, TaskIds, Tasks
from coordinator.groups.streams.records import (
    CurrentTaskIds,
    LastAssignmentConfig,
    LoggedCopartitionGroup,
    LoggedEndpoint,
    LoggedSubtopology,
    LoggedTag,
    LoggedTopicConfig,
    LoggedTopicInfo,
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
    TargetTaskIds,
)
from coordinator.groups.streams.topology import InternalTopic, Topology
from coordinator.machine import Record
from protocol.codec import versioned, versioned_key


def group_facts(group_id: str, facts: GroupFacts) -> Record:
    """The group has another epoch, or other settings."""
    value = StreamsGroupMetadataValue(
        epoch=facts.epoch,
        metadata_hash=facts.metadata_hash,
        validated_topology_epoch=facts.validated_topology_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=key, value=one) for key, one in facts.configs],
    )
    return Record(versioned_key(StreamsGroupMetadataKey(group_id=group_id)), versioned(value, 0))


def topology_declared(group_id: str, topology: Topology) -> Record:
    """The application is this."""
    subtopologies = [
        LoggedSubtopology(
            subtopology_id=one.subtopology_id,
            source_topics=list(one.sources),
            source_topic_regex=[],
            state_changelog_topics=[_logged_topic(topic) for topic in one.changelogs],
            repartition_sink_topics=list(one.repartition_sinks),
            repartition_source_topics=[_logged_topic(topic) for topic in one.repartition_sources],
            copartition_groups=[
                LoggedCopartitionGroup(
                    source_topics=list(group.sources),
                    source_topic_regex=[],
                    repartition_source_topics=list(group.repartition_sources),
                )
                for group in one.copartitioned
            ],
        )
        for one in topology.subtopologies
    ]
    value = StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies)
    return Record(versioned_key(StreamsGroupTopologyKey(group_id=group_id)), versioned(value, 0))


def _logged_topic(topic: InternalTopic) -> LoggedTopicInfo:
    return LoggedTopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[LoggedTopicConfig(key=key, value=value) for key, value in topic.configs],
    )


def member_metadata(group_id: str, member: StreamsMember) -> Record:
    """What a member has said of itself."""
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else LoggedEndpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[LoggedTag(key=key, value=one) for key, one in member.tags],
    )
    return Record(_member_key(group_id, member.member_id), versioned(value, 0))


def _member_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_assignment(group_id: str, member_id: str, target: Tasks) -> Record:
    """What a member is to have."""
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target(target.active), standby_tasks=_target(target.standby), warmup_tasks=_target(target.warmup)
    )
    return Record(_target_key(group_id, member_id), versioned(value, 0))


def _target(tasks: TaskIds) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=one, partitions=sorted(tasks[one])) for one in sorted(tasks)]


def _target_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The target assignments are those of this epoch of the group."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(versioned_key(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)), versioned(value, 0))


def current_assignment(group_id: str, member: StreamsMember) -> Record:
    """What a member has."""
    assigned, revoking = member.assigned, member.revoking
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_active(assigned.active),
        standby_tasks=_current(assigned.standby),
        warmup_tasks=_current(assigned.warmup),
        active_tasks_pending_revocation=_active(revoking.active),
        standby_tasks_pending_revocation=_current(revoking.standby),
        warmup_tasks_pending_revocation=_current(revoking.warmup),
    )
    return Record(_current_key(group_id, member.member_id), versioned(value, 0))


def _active(tasks: ActiveTasks) -> list[CurrentTaskIds]:
    written = []
    for one in sorted(tasks):
        indexes = sorted(tasks[one])
        epochs = [tasks[one][index] for index in indexes]
        written.append(CurrentTaskIds(subtopology_id=one, partitions=indexes, assignment_epochs=epochs))
    return written


def _current(tasks: TaskIds) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=one, partitions=sorted(tasks[one])) for one in sorted(tasks)]


def _current_key(group_id: str, member_id: str) -> bytes:
    return versioned_key(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """A member is gone."""
    return [
        Record(_current_key(group_id, member_id), None),
        Record(_target_key(group_id, member_id), None),
        Record(_member_key(group_id, member_id), None),
    ]


def streams_group_tombstones(group: StreamsGroup) -> Iterator[Record]:
    """The group is gone, what makes one when it is read alone last."""
    group_id = group.group_id
    yield from (Record(_current_key(group_id, member_id), None) for member_id in group.members)
    yield from (Record(_target_key(group_id, member_id), None) for member_id in group.members)
    yield Record(versioned_key(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)), None)
    yield from (Record(_member_key(group_id, member_id), None) for member_id in group.members)
    yield Record(versioned_key(StreamsGroupMetadataKey(group_id=group_id)), None)
    yield Record(versioned_key(StreamsGroupTopologyKey(group_id=group_id)), None)
