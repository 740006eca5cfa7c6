"""StreamsGroupHeartbeat (88), StreamsGroupDescribe (89): groups of Kafka Streams applications (KIP-1071).

One request does all: a member joins with epoch 0 and the topology of its application, stays with its epoch, leaves with
-1. Nobody waits for others. Where the cluster's `streams.version` is 0 both are answered UNSUPPORTED_VERSION.

Not done, as by Kafka 4.3: static members, warm-up tasks, offsets of tasks, sources by regular expression, topologies
that change while a group exists.
"""

from collections.abc import Sequence
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.described_groups import described_groups, described_members
from broker.api.permissions.need import WithAuthorizer, permissions_of
from broker.api.permissions.of_streams_groups import (
    MAKE_TOPIC,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    topics_of,
)
from broker.api.permissions.of_topics import CREATE_ANY
from broker.api.services import WithCluster, WithEnvironment, WithGroups, WithInternalTopics
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from coordinator.cluster.features import STREAMS_VERSION
from coordinator.cluster.topic_rules import Refused, check_name
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.streams.answers import streams_refused
from coordinator.groups.streams.configured import Status
from coordinator.groups.streams.heartbeats import StreamsSaid
from coordinator.groups.streams.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, TaskIds, Tasks
from coordinator.groups.streams.topology import Copartitioned, InternalTopic, Subtopology, Topology
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.streams.groups import (
    DescribedStreamsGroup,
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsTaskIds,
    StreamsTopicInfo,
)

SAID_MOST = 10_000
"""How much a member may say of its application, in topics, settings, tags and so on: all is looked at in one step.
Kafka takes any number."""
SHOWN = 3
"""So many of the topics that could not be made are named."""


class StreamsGroupServices(WithAuthorizer, WithCluster, WithEnvironment, WithGroups, WithInternalTopics, Protocol):
    """What these handlers use of the node."""


@handles(
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    versions=range(0, 1),
    guard=STREAMS_GROUP_HEARTBEAT,
)
async def streams_group_heartbeat(
    services: StreamsGroupServices, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse:
    """Become a member, stay one, say what one runs, leave. Answered at once with the tasks that the member is to run,
    when that is durable; internal topics that are missing are made behind it."""
    if not _is_on(services):
        return streams_refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        _check(request)
        said = _said(context, request)
    except Refusal as refusal:
        return streams_refused(refusal.error, refusal.message)
    try:
        answer = await services.groups.ask(
            request.group_id, lambda machine, ticket, now_ms: machine.streams.heartbeat(said, ticket, now_ms)
        )
    except CoordinatorError as refused:
        return streams_refused(refused.error)
    if answer.to_create:
        problem = _make_topics(services, context, answer.to_create)
        for status in answer.response.status or ():
            if status.status_code == Status.MISSING_INTERNAL_TOPICS and problem:
                status.status_detail += f"; {problem}"
    return answer.response


def _is_on(services: StreamsGroupServices) -> bool:
    return services.cluster.finalized_features.get(STREAMS_VERSION, 0) > 0


# -- internal topics -------------------------------------------------------------------------------------------------


def _make_topics(services: StreamsGroupServices, context: RequestContext, wanted: Sequence[InternalTopic]) -> str:
    """Begin to make them, as the one who asks may; what is to be said of it."""
    permissions = permissions_of(services, context, "StreamsGroupHeartbeat")
    if permissions is not None:
        everything = permissions.have(CREATE_ANY, quietly=True)
        names = (topic.name for topic in wanted)
        denied = [name for name in names if not permissions.have(MAKE_TOPIC, name, quietly=everything)]
        if denied and not everything:
            return f"Unauthorized to CREATE on topics {', '.join(denied)}."
    failures = services.internal_topics.failures(wanted)
    services.internal_topics.begin(wanted)
    if not failures:
        return ""
    more = f" and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
    return f"Creation failed: {', '.join(f'{name} ({why})' for name, why in failures[:SHOWN])}{more}."


# -- what is wrong with a request in itself, in Kafka's order and words ----------------------------------------------


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises `Refusal`."""
    if _said_count(request) > SAID_MOST:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"More than {SAID_MOST} topics, settings and tags are named.")
    if request.topology is not None:
        _check_names(request.topology)
    problem = _not_supported(request) or _malformed(request)
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    for one in () if request.topology is None else request.topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )


def _said_count(request: StreamsGroupHeartbeatRequest) -> int:
    subtopologies = () if request.topology is None else request.topology.subtopologies
    return len(request.client_tags or ()) + sum(map(_size, subtopologies))


def _size(one: HeartbeatSubtopology) -> int:
    """How many elements there are in it."""
    topics = (*one.state_changelog_topics, *one.repartition_source_topics)
    size = 1 + len(one.source_topics) + len(one.source_topic_regex) + len(one.repartition_sink_topics)
    size += sum(1 + len(topic.topic_configs) for topic in topics)
    return size + sum(
        1 + len(group.source_topics) + len(group.repartition_source_topics) for group in one.copartition_groups
    )


def _check_names(topology: HeartbeatTopology) -> None:
    names = {name for one in topology.subtopologies for name in topics_of(one)}
    internal = sorted(names & set(INTERNAL_TOPICS))
    if internal:
        listed = ",".join(internal)
        raise _invalid(f"Use of Kafka internal topics {listed} in a Kafka Streams topology is prohibited.")
    wrong = [name for name in sorted(names) if not _is_name(name)]
    if wrong:
        raise _invalid(f"Topic names {','.join(wrong)} are not valid topic names.")


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except Refused:
        return False
    return True


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)


def _not_supported(request: StreamsGroupHeartbeatRequest) -> str | None:
    subtopologies = () if request.topology is None else request.topology.subtopologies
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    if any(one.source_topic_regex for one in subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _malformed(request: StreamsGroupHeartbeatRequest) -> str | None:
    for text, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if text is not None and not text.strip():
            return f"{name} can't be empty."
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        roles = (("Active", request.active_tasks), ("Standby", request.standby_tasks), ("Warmup", request.warmup_tasks))
        for role, tasks in roles:
            if tasks is None or tasks:
                return f"{role}Tasks must be empty when (re-)joining."
        if request.topology is None:
            return "Topology must be non-null when (re-)joining."
    elif epoch == LEAVING_STATIC_EPOCH:
        return "InstanceId can't be null."
    elif epoch < LEAVING_STATIC_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    elif request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    if len({tasks is None for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)}) > 1:
        return "If one task-type is non-null, all must be non-null."
    return None


# -- the request as the coordinator takes it -------------------------------------------------------------------------


def _said(context: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsSaid:
    """Raises `Refusal`."""
    joins = request.member_epoch == JOINING_EPOCH
    tags, endpoint = request.client_tags, request.user_endpoint
    owned = None
    if request.active_tasks is not None:
        owned = Tasks(_ids(request.active_tasks), _ids(request.standby_tasks or ()), {})
    return StreamsSaid(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer_host}",
        endpoint_epoch=request.endpoint_information_epoch,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        topology=_topology(request.topology) if joins and request.topology is not None else None,
        owned=owned,
        process_id=request.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        tags=None if tags is None else tuple((tag.key, tag.value) for tag in tags),
        shuts_down=request.shutdown_application,
    )


def _ids(tasks: Sequence[StreamsTaskIds]) -> TaskIds:
    """Raises `Refusal`."""
    ids = {one.subtopology_id: frozenset(one.partitions) for one in tasks}
    if len(ids) < len(tasks):
        raise Refusal(ErrorCode.INVALID_REQUEST, "A subtopology is named twice among the tasks of a member.")
    return ids


def _topology(topology: HeartbeatTopology) -> Topology:
    subtopologies = tuple(_subtopology(one) for one in topology.subtopologies)
    if topology.epoch < 0:
        raise _invalid("The epoch of a topology cannot be negative.")
    if len({one.subtopology_id for one in subtopologies}) < len(subtopologies):
        raise _invalid("A subtopology is named twice.")
    return Topology(topology.epoch, subtopologies)


def _subtopology(one: HeartbeatSubtopology) -> Subtopology:
    made = Subtopology(
        one.subtopology_id,
        tuple(one.source_topics),
        tuple(map(_internal_topic, one.state_changelog_topics)),
        tuple(one.repartition_sink_topics),
        tuple(map(_internal_topic, one.repartition_source_topics)),
        tuple(
            Copartitioned(tuple(group.source_topics), tuple(group.repartition_source_topics))
            for group in one.copartition_groups
        ),
    )
    if not made.has_its_copartitioned:
        raise _invalid(f"Subtopology {one.subtopology_id} has no such topics to be copartitioned.")
    return made


def _internal_topic(topic: StreamsTopicInfo) -> InternalTopic:
    configs = tuple((one.key, one.value) for one in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


# -- administration --------------------------------------------------------------------------------------------------


@handles(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, versions=range(0, 1), guard=STREAMS_GROUP_DESCRIBE)
async def streams_group_describe(
    services: StreamsGroupServices, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Each group with its epochs, its topology and its members: what they run and are to run. Answered at once.

    GROUP_ID_NOT_FOUND for a group that is not there or of another protocol.
    """
    groups = await described_groups(
        services,
        request,
        feature=STREAMS_VERSION,
        refused=lambda group_id, error: DescribedStreamsGroup(group_id=group_id, error_code=error),
        described=lambda group_id, time_slice: _described(services, group_id, time_slice),
    )
    return StreamsGroupDescribeResponse(groups=groups)


async def _described(services: StreamsGroupServices, group_id: str, time_slice: TimeSlice) -> DescribedStreamsGroup:
    shown = await services.groups.ask(
        group_id, lambda machine, ticket, now_ms: machine.streams.describe(group_id, ticket, now_ms)
    )
    shown.group.members = await described_members(shown.members, time_slice)
    return shown.group
