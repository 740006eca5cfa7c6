"""What the APIs of share groups and their offsets need."""

from collections.abc import Iterable
from typing import Any

from broker.api.permissions.need import Call, Guard, Need, sift
from broker.api.permissions.of_consumer_groups import HIDDEN
from coordinator.groups.share.answers import heartbeat_refused
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.share.groups import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol.messages.share.offsets import (
    AlteredOffsetsPartition,
    AlteredOffsetsTopic,
    AlterOffsetsTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeletedOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribedOffsetsGroup,
    DescribedOffsetsPartition,
    DescribedOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)

GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
MESSAGES = {GROUP_DENIED: "Group authorization failed.", TOPIC_DENIED: "Topic authorization failed."}
READ = Need(Operation.READ, ResourceType.GROUP, GROUP_DENIED, "the group")
DELETE = Need(Operation.DELETE, ResourceType.GROUP, GROUP_DENIED, "the group")
DESCRIBE = Need(Operation.DESCRIBE, ResourceType.GROUP, GROUP_DENIED, "each group")
SEE_TOPIC = Need(Operation.DESCRIBE, ResourceType.TOPIC, TOPIC_DENIED, "each topic that is named, or that members have")
READ_TOPIC = Need(Operation.READ, ResourceType.TOPIC, TOPIC_DENIED, "each topic")


async def _heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    permissions = call.permissions
    if not permissions.have(READ, request.group_id):
        return heartbeat_refused(GROUP_DENIED)
    names = sorted(set(request.subscribed_topic_names or ()))
    _, denied = await sift(names, lambda name: permissions.have(SEE_TOPIC, name), call.time_slice())
    if denied:
        return heartbeat_refused(TOPIC_DENIED)
    return await call.answer(request)  # type: ignore[no-any-return]


async def _describe(call: Call, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    request.group_ids, denied = await sift(request.group_ids, lambda one: permissions.have(DESCRIBE, one), time_slice)
    response: ShareGroupDescribeResponse = await call.answer(request)
    for position, group in enumerate(response.groups):
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = permissions.operations(ResourceType.GROUP, group.group_id)
        if not all(permissions.have(SEE_TOPIC, name, quietly=True) for name in _topics_of(group)):
            response.groups[position] = DescribedShareGroup(
                group_id=group.group_id, error_code=TOPIC_DENIED, error_message=HIDDEN
            )
        await time_slice.give_way()
    response.groups += await time_slice.each(
        lambda group_id: DescribedShareGroup(group_id=group_id, error_code=GROUP_DENIED), denied
    )
    return response


def _topics_of(group: DescribedShareGroup) -> Iterable[str]:
    """Those that members have partitions of: what they want is told, as by Kafka."""
    return sorted({topic.topic_name for member in group.members for topic in member.assignment.topic_partitions})


SHARE_GROUP_HEARTBEAT = Guard((READ, SEE_TOPIC), _heartbeat)
SHARE_GROUP_DESCRIBE = Guard((DESCRIBE, SEE_TOPIC), _describe, "A group with other topics is not shown.")


# -- offsets ---------------------------------------------------------------------------------------------------------


async def _describe_offsets(call: Call, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    request.groups, denied = await sift(
        request.groups, lambda group: permissions.have(DESCRIBE, group.group_id), time_slice
    )
    unseen: dict[str, list[DescribedOffsetsTopic]] = {}
    for group in request.groups:
        if group.topics is not None:
            group.topics, hidden = await sift(
                group.topics, lambda topic: permissions.have(SEE_TOPIC, topic.topic_name), time_slice
            )
            unseen[group.group_id] = [
                DescribedOffsetsTopic(
                    topic_name=topic.topic_name,
                    partitions=[
                        DescribedOffsetsPartition(
                            partition_index=one, error_code=TOPIC_DENIED, error_message=MESSAGES[TOPIC_DENIED]
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in hidden
            ]
    response: DescribeShareGroupOffsetsResponse = await call.answer(request)
    for described in response.groups:
        if described.group_id not in unseen:  # all topics were asked for: those that may not be seen are left out
            described.topics, _ = await sift(
                described.topics, lambda topic: permissions.have(SEE_TOPIC, topic.topic_name), time_slice
            )
        described.topics += unseen.get(described.group_id, [])
    response.groups += [DescribedOffsetsGroup(group_id=group.group_id, error_code=GROUP_DENIED) for group in denied]
    return response


async def _alter_offsets(call: Call, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    if not call.permissions.have(READ, request.group_id):
        return AlterShareGroupOffsetsResponse(error_code=GROUP_DENIED, error_message=MESSAGES[GROUP_DENIED])
    request.topics, denied = await _readable(call, request.topics)
    response: AlterShareGroupOffsetsResponse = await call.answer(request)
    if response.error_code == ErrorCode.NONE:
        response.responses += [_not_altered(topic) for topic in denied]
    return response


def _not_altered(topic: AlterOffsetsTopic) -> AlteredOffsetsTopic:
    partitions = [
        AlteredOffsetsPartition(
            partition_index=one.partition_index, error_code=TOPIC_DENIED, error_message=MESSAGES[TOPIC_DENIED]
        )
        for one in topic.partitions
    ]
    return AlteredOffsetsTopic(topic_name=topic.topic_name, partitions=partitions)


async def _delete_offsets(call: Call, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    if not call.permissions.have(DELETE, request.group_id):
        return DeleteShareGroupOffsetsResponse(error_code=GROUP_DENIED, error_message=MESSAGES[GROUP_DENIED])
    request.topics, denied = await _readable(call, request.topics)
    response: DeleteShareGroupOffsetsResponse = await call.answer(request)
    if response.error_code == ErrorCode.NONE:
        response.responses += [
            DeletedOffsetsTopic(
                topic_name=topic.topic_name, error_code=TOPIC_DENIED, error_message=MESSAGES[TOPIC_DENIED]
            )
            for topic in denied
        ]
    return response


async def _readable(call: Call, topics: list[Any]) -> tuple[list[Any], list[Any]]:
    permissions = call.permissions
    return await sift(topics, lambda topic: permissions.have(READ_TOPIC, topic.topic_name), call.time_slice())


DESCRIBE_SHARE_GROUP_OFFSETS = Guard((DESCRIBE, SEE_TOPIC), _describe_offsets)
ALTER_SHARE_GROUP_OFFSETS = Guard((READ, READ_TOPIC), _alter_offsets)
DELETE_SHARE_GROUP_OFFSETS = Guard((DELETE, READ_TOPIC), _delete_offsets)
