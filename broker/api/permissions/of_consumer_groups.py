"""What the APIs of groups of the consumer protocol need."""

from collections.abc import Iterable

from broker.api.permissions.need import Call, Guard, Need, sift
from broker.api.permissions.of_groups import DESCRIBE, GROUP_DENIED, READ
from coordinator.groups.consumer.answers import heartbeat_refused
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    DescribedMember,
)

SEE_TOPIC = Need(
    Operation.DESCRIBE,
    ResourceType.TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "each topic that is named; of a regular expression, those that match are found only with it",
)
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


async def _heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    permissions = call.permissions
    if not permissions.have(READ, request.group_id):
        return heartbeat_refused(GROUP_DENIED)
    names = request.subscribed_topic_names
    if names:
        _, denied = await sift(sorted(set(names)), lambda name: permissions.have(SEE_TOPIC, name), call.time_slice())
        if denied:
            return heartbeat_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await call.answer(request)  # type: ignore[no-any-return]


async def _describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    request.group_ids, denied = await sift(request.group_ids, lambda one: permissions.have(DESCRIBE, one), time_slice)
    response: ConsumerGroupDescribeResponse = await call.answer(request)
    for position, group in enumerate(response.groups):
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = permissions.operations(ResourceType.GROUP, group.group_id)
        names = sorted({name for of in await time_slice.each(_topics_of, group.members) for name in of})
        if not all(permissions.have(SEE_TOPIC, name, quietly=True) for name in names):
            response.groups[position] = DescribedConsumerGroup(
                group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=HIDDEN
            )
        await time_slice.give_way()
    response.groups += await time_slice.each(
        lambda group_id: DescribedConsumerGroup(group_id=group_id, error_code=GROUP_DENIED), denied
    )
    return response


def _topics_of(member: DescribedMember) -> Iterable[str]:
    assignments = (member.assignment, member.target_assignment)
    assigned = (topic.topic_name for assignment in assignments for topic in assignment.topic_partitions)
    return {*assigned, *member.subscribed_topic_names}


CONSUMER_GROUP_HEARTBEAT = Guard((READ, SEE_TOPIC), _heartbeat)
CONSUMER_GROUP_DESCRIBE = Guard((DESCRIBE, SEE_TOPIC), _describe, "A group with other topics is not shown.")
