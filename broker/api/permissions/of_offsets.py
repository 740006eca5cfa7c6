"""What the APIs of offsets need that groups have committed."""

from collections.abc import Sequence
from typing import Any

from broker.api.permissions.need import Call, Guard, Need, TopicShape, sift
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_OFFSET = -1
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
DESCRIBE = Need(Operation.DESCRIBE, ResourceType.GROUP, GROUP_DENIED, "each group")
IDS_SINCE = 10
GROUPS_SINCE = 8
GROUP_ERROR_SINCE = 2

READ = Need(Operation.READ, ResourceType.GROUP, GROUP_DENIED, "the group")
DELETE_OF_ONE = Need(Operation.DELETE, ResourceType.GROUP, GROUP_DENIED, "the group")
READ_TOPIC = Need(Operation.READ, ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "each topic")
DESCRIBE_TOPIC = Need(Operation.DESCRIBE, ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "each topic")
WRITE_ID = Need(
    Operation.WRITE,
    ResourceType.TRANSACTIONAL_ID,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "the transactional id",
)

_COMMITTED = TopicShape(
    OffsetCommitResponseTopic,
    lambda one, error: OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error),
)
_STAGED = TopicShape(
    TxnOffsetCommitResponseTopic,
    lambda one, error: TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error),
)
_DELETED = TopicShape(
    OffsetDeleteResponseTopic,
    lambda one, error: OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=error),
)


async def _offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    topics = request.topics
    if not call.permissions.have(READ, request.group_id):
        refused = OffsetCommitResponse(topics=[])
        await _COMMITTED.add_refused(call, refused, topics, READ)
        _give_ids(refused.topics, topics)
        return refused
    denied = await _take_unreadable(call, request, by_id=call.context.api_version >= IDS_SINCE)
    response: OffsetCommitResponse = await call.answer(request)
    answered = len(response.topics)
    await _COMMITTED.add_refused(call, response, denied, READ_TOPIC)
    _give_ids(response.topics[answered:], denied)
    return response


def _give_ids(answered: Sequence[OffsetCommitResponseTopic], topics: Sequence[Any]) -> None:
    for topic, wanted in zip(answered, topics, strict=True):
        topic.topic_id = wanted.topic_id


async def _take_unreadable(call: Call, request: Any, *, by_id: bool) -> list[Any]:
    """Take the topics that the client may not read out of a request. An id that is nobody's stays in it."""
    directory, permissions = call.services.topics, call.permissions

    def is_allowed(topic: Any) -> bool:
        if not by_id:
            return permissions.have(READ_TOPIC, topic.name)
        known = directory.by_id(topic.topic_id)
        return known is None or permissions.have(READ_TOPIC, known.name)

    request.topics, denied = await sift(request.topics, is_allowed, call.time_slice())
    return denied


async def _txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    for need, name in ((WRITE_ID, request.transactional_id), (READ, request.group_id)):
        if not call.permissions.have(need, name):
            refused = TxnOffsetCommitResponse(topics=[])
            await _STAGED.add_refused(call, refused, request.topics, need)
            return refused
    denied = await _STAGED.take_denied(call, request, READ_TOPIC)
    response: TxnOffsetCommitResponse = await call.answer(request)
    await _STAGED.add_refused(call, response, denied, READ_TOPIC)
    return response


async def _offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    if not call.permissions.have(DELETE_OF_ONE, request.group_id):
        return OffsetDeleteResponse(error_code=GROUP_DENIED, topics=[])
    denied = await _DELETED.take_denied(call, request, READ_TOPIC)
    response: OffsetDeleteResponse = await call.answer(request)
    if not response.error_code:
        await _DELETED.add_refused(call, response, denied, READ_TOPIC)
    return response


OFFSET_COMMIT = Guard((READ, READ_TOPIC), _offset_commit)
TXN_OFFSET_COMMIT = Guard((WRITE_ID, READ, READ_TOPIC), _txn_offset_commit)
OFFSET_DELETE = Guard((DELETE_OF_ONE, READ_TOPIC), _offset_delete)


# -- OffsetFetch -----------------------------------------------------------------------------------------------------


async def _offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """One group at a time through the handler, as each has topics of its own."""
    version = call.context.api_version
    if version >= GROUPS_SINCE:
        return await _offsets_of_groups(call, request)
    if not call.permissions.have(DESCRIBE, request.group_id):
        refused = OffsetFetchResponse(error_code=GROUP_DENIED)
        if version < GROUP_ERROR_SINCE:
            refused.topics = await _undisclosed_alone(call, request.topics or [], GROUP_DENIED)
        return refused
    denied: list[Any] = []
    if request.topics is not None:
        request.topics, denied = await _tell_apart(call, request.topics, by_id=False, quietly=False)
    response: OffsetFetchResponse = await call.answer(request)
    if request.topics is None:
        response.topics, _ = await _tell_apart(call, response.topics, by_id=False, quietly=True)
    response.topics += await _undisclosed_alone(call, denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return response


async def _offsets_of_groups(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    by_id, time_slice = call.context.api_version >= IDS_SINCE, call.time_slice()
    request.groups, refused = await sift(
        request.groups, lambda group: call.permissions.have(DESCRIBE, group.group_id), time_slice
    )
    denied: list[list[Any]] = []
    for group in request.groups:
        topics: list[Any] = []
        if group.topics is not None:
            group.topics, topics = await _tell_apart(call, group.topics, by_id=by_id, quietly=False)
        denied.append(topics)
    response: OffsetFetchResponse = await call.answer(request)
    for group, answered, topics in zip(request.groups, response.groups, denied, strict=True):
        if group.topics is None:
            answered.topics, _ = await _tell_apart(call, answered.topics, by_id=False, quietly=True)
        answered.topics += [] if answered.error_code else await _undisclosed(call, topics)
    response.groups += await time_slice.each(_denied_group, refused)
    return response


def _denied_group(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=GROUP_DENIED)


async def _tell_apart(call: Call, topics: list[Any], *, by_id: bool, quietly: bool) -> tuple[list[Any], list[Any]]:
    """Topics that the client may describe, or whose id is nobody's, and others."""
    directory, permissions = call.services.topics, call.permissions

    def is_allowed(topic: Any) -> bool:
        known = directory.by_id(topic.topic_id) if by_id else topic
        return known is None or permissions.have(DESCRIBE_TOPIC, known.name, quietly=quietly)

    return await sift(topics, is_allowed, call.time_slice())


async def _undisclosed(call: Call, topics: Sequence[OffsetFetchRequestTopics]) -> list[OffsetFetchResponseTopics]:
    time_slice, responses = call.time_slice(), list[OffsetFetchResponseTopics]()
    for topic in topics:
        partitions = await time_slice.each(
            lambda index: OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ),
            topic.partition_indexes,
        )
        responses.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        await time_slice.give_way()
    return responses


async def _undisclosed_alone(call: Call, topics: Sequence[Any], error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    time_slice, responses = call.time_slice(), list[OffsetFetchResponseTopic]()
    for topic in topics:
        partitions = await time_slice.each(
            lambda index: OffsetFetchResponsePartition(
                partition_index=index, committed_offset=NO_OFFSET, error_code=error
            ),
            topic.partition_indexes,
        )
        responses.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        await time_slice.give_way()
    return responses


OFFSET_FETCH = Guard(
    (DESCRIBE, DESCRIBE_TOPIC), _offset_fetch, "Who asks for all topics is told of those that it may describe."
)
