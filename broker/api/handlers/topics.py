"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37), DescribeTopicPartitions (75): making, deleting and
growing topics, and describing them page by page.
"""

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import groupby

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.handlers.metadata import TOPIC_OPERATIONS, MetadataServices
from broker.api.mutation_quota import creations_within_quota, deletions_within_quota, growths_within_quota
from broker.api.permissions.of_topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_TOPIC_PARTITIONS
from broker.coordination.coordinators import CoordinatorError
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from coordinator.cluster.leaders import NOBODY
from coordinator.cluster.topic_rules import Refused, check_name
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

NAMES_SORTED_AT_ONCE = 2_000


@handles(CreateTopicsRequest, CreateTopicsResponse, versions=range(2, 8), guard=CREATE_TOPICS)
async def create_topics(
    services: MetadataServices, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Make topics. Answered when they are durable and their partitions can be written; each succeeds or fails alone.

    `timeout_ms` is not looked at: there is nobody to wait for. v4: -1 for the default number of partitions and
    replicas. v5: what the topic was made with comes back. v6: THROTTLING_QUOTA_EXCEEDED (KIP-599). v7: its id.
    """
    topics, throttled = await creations_within_quota(services, context, request.topics)
    try:
        results = await services.topics.create(topics, validate_only=request.validate_only)
    except CoordinatorError as refused:
        error = refused.error

        def result_of(topic: CreatableTopic) -> CreatableTopicResult:
            return CreatableTopicResult(name=topic.name, error_code=error, error_message=None, configs=[])

        results = await services.environment.time_slice().each(result_of, topics)
    return CreateTopicsResponse(topics=results + throttled)


@handles(DeleteTopicsRequest, DeleteTopicsResponse, versions=range(1, 7), guard=DELETE_TOPICS)
async def delete_topics(
    services: MetadataServices, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete topics. Answered when that is durable and the names are free again.

    v5: THROTTLING_QUOTA_EXCEEDED (KIP-599). v6: topics may be named by id. Internal topics are not deleted:
    coordinators run on them (Kafka deletes them).
    """
    time_slice = services.environment.time_slice()
    topics: Sequence[DeleteTopicState] = request.topics
    if context.api_version < 6:
        topics = await time_slice.each(lambda name: DeleteTopicState(name=name), request.topic_names)
    topics, throttled = await deletions_within_quota(services, context, topics)
    try:
        results = await services.topics.delete(topics)
    except CoordinatorError as refused:
        error = refused.error

        def result_of(topic: DeleteTopicState) -> DeletableTopicResult:
            return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error)

        results = await time_slice.each(result_of, topics)
    return DeleteTopicsResponse(responses=results + throttled)


@handles(CreatePartitionsRequest, CreatePartitionsResponse, versions=range(0, 4), guard=CREATE_PARTITIONS)
async def create_partitions(
    services: MetadataServices, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Give topics more partitions. Answered when they are durable and can be written.

    Internal topics do not grow: where a group or a transactional id lives follows from the number of partitions. v3:
    THROTTLING_QUOTA_EXCEEDED (KIP-599).
    """
    topics, throttled = await growths_within_quota(services, context, request.topics)
    try:
        results = await services.topics.grow(topics, validate_only=request.validate_only)
    except CoordinatorError as refused:
        error = refused.error

        def result_of(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
            return CreatePartitionsTopicResult(name=topic.name, error_code=error)

        results = await services.environment.time_slice().each(result_of, topics)
    return CreatePartitionsResponse(results=results + throttled)


@handles(
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    versions=range(0, 1),
    guard=DESCRIBE_TOPIC_PARTITIONS,
)
async def describe_topic_partitions(
    services: MetadataServices, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe topics in order of their names, so many partitions at a time (KIP-966). Answered at once.

    No topics means all of them. The cursor says where to go on; one that fits no topic asked for is INVALID_REQUEST.
    """
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    time_slice = services.environment.time_slice()
    names = await time_slice.each(lambda topic: topic.name, request.topics)
    if cursor is not None and ((names and first not in names) or cursor.partition_index < 0):
        refused = await time_slice.each(lambda name: _undescribed(name, ErrorCode.INVALID_REQUEST), names)
        return DescribeTopicPartitionsResponse(topics=refused)
    wanted = await _in_order(names or [topic.name for topic in services.topics.all()], first, time_slice)
    start = 0 if cursor is None else cursor.partition_index
    limit = min(request.response_partition_limit, services.config.get_int("max.request.partition.size.limit"))
    return await _page(services, context.connection.listener, wanted, first, start, max(limit, 1))


async def _in_order(names: Sequence[str], first: str, time_slice: TimeSlice) -> Iterable[str]:
    """Each name from `first` on, once. To sort a hundred thousand at once would take too long."""
    portions = []
    for begin in range(0, len(names), NAMES_SORTED_AT_ONCE):
        portions.append(sorted(name for name in names[begin : begin + NAMES_SORTED_AT_ONCE] if name >= first))
        await time_slice.give_way()
    return (name for name, _ in groupby(merge(*portions)))


async def _page(
    services: MetadataServices, listener: str, wanted: Iterable[str], first: str, start: int, room: int
) -> DescribeTopicPartitionsResponse:
    answer = DescribeTopicPartitionsResponse(topics=[])
    time_slice = services.environment.time_slice()
    for name in wanted:
        if time_slice.spent():
            await time_slice.wait_for_turn()
        if room <= 0:
            answer.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = services.topics.by_name(name)
        if topic is None:
            answer.topics.append(_undescribed(name, _missing(name)))
            continue
        count = len(topic.partitions)
        indexes = range(start if name == first else 0, count)[:room]
        room -= len(indexes)
        described = _undescribed(name, ErrorCode.NONE)
        described.topic_id = topic.topic_id
        described.partitions = [_partition(services, listener, topic, index) for index in indexes]
        answer.topics.append(described)
        if indexes and indexes[-1] + 1 < count:
            answer.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=indexes[-1] + 1)
            break
    return answer


def _partition(
    services: MetadataServices, listener: str, topic: Topic, index: int
) -> DescribeTopicPartitionsResponsePartition:
    leader, epoch = services.nodes.leader(topic.topic_id, index)
    is_reached = services.nodes.reach(leader, listener) is not None
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        error_code=ErrorCode.NONE if is_reached else ErrorCode.LEADER_NOT_AVAILABLE,
        leader_id=leader if is_reached else NOBODY,
        leader_epoch=epoch,
        replica_nodes=[leader] if leader >= 0 else [],
        isr_nodes=[leader] if leader >= 0 else [],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[] if is_reached or leader == NOBODY else [leader],
    )


def _undescribed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=bytes(16),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS if error is not ErrorCode.INVALID_REQUEST else -(1 << 31),
    )


def _missing(name: str) -> ErrorCode:
    try:
        check_name(name)
    except Refused as refused:
        return refused.error
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
