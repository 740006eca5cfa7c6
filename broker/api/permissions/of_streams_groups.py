"""What the APIs of streams groups need."""

from collections.abc import Iterable

from broker.api.permissions.need import Call, Guard, Need, sift
from broker.api.permissions.of_groups import DESCRIBE, GROUP_DENIED, READ
from broker.api.permissions.of_topics import CREATE_ANY
from coordinator.groups.streams.answers import streams_refused
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.streams.groups import (
    DescribedStreamsGroup,
    DescribedSubtopology,
    HeartbeatSubtopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

SEE_TOPIC = Need(
    Operation.DESCRIBE,
    ResourceType.TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "each topic of the topology, those that are to be made included",
)
USES_OTHERS = "The described group uses topics that the client is not authorized to describe."
MAKE_TOPIC = Need(
    Operation.CREATE, ResourceType.TOPIC, None, "each internal topic that is to be made; without it, none is"
)


async def _heartbeat(call: Call, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    permissions = call.permissions
    if not permissions.have(READ, request.group_id):
        return streams_refused(GROUP_DENIED)
    if request.topology is not None:
        names = sorted({name for one in request.topology.subtopologies for name in topics_of(one)})
        _, denied = await sift(names, lambda name: permissions.have(SEE_TOPIC, name), call.time_slice())
        if denied:
            return streams_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await call.answer(request)  # type: ignore[no-any-return]


def topics_of(subtopology: HeartbeatSubtopology | DescribedSubtopology) -> Iterable[str]:
    """The names of all topics that a subtopology names."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics))


async def _describe(call: Call, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    request.group_ids, denied = await sift(request.group_ids, lambda one: permissions.have(DESCRIBE, one), time_slice)
    response: StreamsGroupDescribeResponse = await call.answer(request)
    for position, group in enumerate(response.groups):
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = permissions.operations(ResourceType.GROUP, group.group_id)
        subtopologies = () if group.topology is None else group.topology.subtopologies or ()
        names = {name for one in subtopologies for name in topics_of(one)}
        if not all(permissions.have(SEE_TOPIC, name, quietly=True) for name in sorted(names)):
            response.groups[position] = DescribedStreamsGroup(
                group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=USES_OTHERS
            )
        await time_slice.give_way()
    response.groups += await time_slice.each(
        lambda group_id: DescribedStreamsGroup(group_id=group_id, error_code=GROUP_DENIED), denied
    )
    return response


STREAMS_GROUP_HEARTBEAT = Guard((READ, SEE_TOPIC, CREATE_ANY, MAKE_TOPIC), _heartbeat)
STREAMS_GROUP_DESCRIBE = Guard((DESCRIBE, SEE_TOPIC), _describe, "A group with other topics is not shown.")
