"""What members and administrators of streams groups are answered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.seen.listing import Shown
from coordinator.groups.streams.configured import ConfiguredTopology, Problem
from coordinator.groups.streams.group import StreamsGroup, StreamsGroupState
from coordinator.groups.streams.member import StreamsMember, TaskIds, Tasks
from coordinator.groups.streams.topology import InternalTopic, Topology
from protocol.errors import ErrorCode
from protocol.messages.groups import ListedGroup
from protocol.messages.streams.groups import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTasks,
    DescribedTopology,
    EndpointToPartitions,
    StreamsEndpoint,
    StreamsGroupHeartbeatResponse,
    StreamsKeyValue,
    StreamsStatus,
    StreamsTaskIds,
    StreamsTopicInfo,
    StreamsTopicPartition,
)

ShownStreamsGroup = Shown[DescribedStreamsGroup, DescribedStreamsMember]
STREAMS_TYPE = "streams"
"""Of a group, and of the protocol of its members."""


@dataclass(frozen=True, slots=True)
class StreamsAnswer:
    """What a member is told, and the internal topics that `broker` is to make."""

    response: StreamsGroupHeartbeatResponse
    to_create: Sequence[InternalTopic] = ()


def streams_refused(error: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error, error_message=message)


def refused(refusal: Refusal) -> StreamsAnswer:
    return StreamsAnswer(streams_refused(refusal.error, refusal.message))


def left(member_id: str, epoch: int) -> StreamsAnswer:
    """A member has gone."""
    return StreamsAnswer(StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch))


def told(
    member: StreamsMember, interval_ms: int, problems: Iterable[Problem], *, with_tasks: bool
) -> StreamsGroupHeartbeatResponse:
    """What a member has from now on; without a word of its tasks where they are as it knows them."""
    ids = member.assigned.ids()
    return StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        status=[StreamsStatus(status_code=one.status, status_detail=one.detail) for one in problems],
        active_tasks=_task_ids(ids.active) if with_tasks else None,
        standby_tasks=_task_ids(ids.standby) if with_tasks else None,
        warmup_tasks=_task_ids(ids.warmup) if with_tasks else None,
    )


def _task_ids(tasks: TaskIds) -> list[StreamsTaskIds]:
    return [StreamsTaskIds(subtopology_id=one, partitions=sorted(tasks[one])) for one in sorted(tasks)]


# -- who answers questions about which state -------------------------------------------------------------------------


def endpoints_of(
    group: StreamsGroup, member: StreamsMember, topology: Topology, topics: GroupTopics
) -> list[EndpointToPartitions]:
    """Every member that has said where it can be reached, with the partitions whose state it has; `member` as it is
    about to be."""
    members = {**group.members, member.member_id: member}
    counts = {name: topic.partition_count for name in topology.readers if (topic := topics.by_name(name)) is not None}
    read: dict[str, list[str]] = {}
    for name in counts:
        read.setdefault(topology.readers[name], []).append(name)
    return [
        EndpointToPartitions(
            user_endpoint=StreamsEndpoint(host=one.endpoint[0], port=one.endpoint[1]),
            active_partitions=list(_partitions(one.assigned.ids().active, read, counts)),
            standby_partitions=list(_partitions(one.assigned.standby, read, counts)),
        )
        for one in members.values()
        if one.endpoint is not None
    ]


def _partitions(tasks: TaskIds, read: dict[str, list[str]], counts: dict[str, int]) -> Iterator[StreamsTopicPartition]:
    for subtopology in sorted(tasks):
        for name in read.get(subtopology, ()):
            partitions = sorted(index for index in tasks[subtopology] if index < counts[name])
            if partitions:
                yield StreamsTopicPartition(topic=name, partitions=partitions)


# -- administration --------------------------------------------------------------------------------------------------


def wanted_streams_states(states: Sequence[str], types: Sequence[str]) -> frozenset[StreamsGroupState]:
    """The states of streams groups that pass both filters of ListGroups; an empty filter lets everything pass."""
    named = {word.lower() for word in states}
    of_type = not types or STREAMS_TYPE in {word.lower() for word in types}
    return frozenset(state for state in StreamsGroupState if of_type and (not named or state.value.lower() in named))


def listed_streams(of_group: tuple[str, StreamsGroupState]) -> ListedGroup:
    """One group in a list."""
    group_id, state = of_group
    return ListedGroup(group_id=group_id, protocol_type=STREAMS_TYPE, group_state=state.value, group_type=STREAMS_TYPE)


def described(group: StreamsGroup, configured: ConfiguredTopology) -> ShownStreamsGroup:
    """A group with its members. The partitions of internal topics are those that its last heartbeat has found."""
    topology = group.topology
    whole = DescribedStreamsGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if topology is None else _topology(topology, configured),
        members=[],
    )
    members = [partial(_member, member, group.target_of(member.member_id)) for member in group.members.values()]
    return Shown(whole, members)


def _topology(topology: Topology, configured: ConfiguredTopology) -> DescribedTopology:
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=one.subtopology_id,
                source_topics=sorted(one.sources),
                repartition_sink_topics=sorted(one.repartition_sinks),
                state_changelog_topics=_topic_infos(one.changelogs, configured),
                repartition_source_topics=_topic_infos(one.repartition_sources, configured),
            )
            for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
        ],
    )


def _topic_infos(topics: Iterable[InternalTopic], configured: ConfiguredTopology) -> list[StreamsTopicInfo]:
    return [
        StreamsTopicInfo(
            name=topic.name,
            partitions=configured.counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[StreamsKeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: StreamsMember, target: Tasks) -> DescribedStreamsMember:
    endpoint = member.endpoint
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else StreamsEndpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[StreamsKeyValue(key=key, value=value) for key, value in member.tags],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_tasks(member.assigned.ids()),
        target_assignment=_tasks(target),
        is_classic=False,
    )


def _tasks(tasks: Tasks) -> DescribedTasks:
    return DescribedTasks(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )
