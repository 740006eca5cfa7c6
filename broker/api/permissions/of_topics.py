"""What the APIs need that name topics, but for those that read and write records.

Topics that a client may not describe are not told apart from topics that are not there: neither are looked up.
"""

from collections import Counter
from copy import copy

from broker.api.permissions.need import Call, Guard, Need, TopicShape, each_topic, sift
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.messages.metadata import TopicRequest as DescribedTopic
from protocol.messages.offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderTopicResult,
)
from protocol.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.messages.transactions import PartitionResponse, TopicResponse

NO_ID = bytes(16)
IDS_SINCE = 12
CHOICE_SINCE = 4
"""Since when a Metadata request says whether topics are to be made."""
NAMES_UNTIL = 5
"""Until when a DeleteTopics request names topics only."""
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NAMELESS = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST)
"""What Metadata answers without looking for a topic."""
MESSAGE = "Topic authorization failed."

DESCRIBE = Need(Operation.DESCRIBE, ResourceType.TOPIC, DENIED, "each topic")
CREATE = Need(Operation.CREATE, ResourceType.TOPIC, DENIED, "each topic")
DELETE = Need(Operation.DELETE, ResourceType.TOPIC, DENIED, "each topic")
ALTER = Need(Operation.ALTER, ResourceType.TOPIC, DENIED, "each topic")
READ = Need(Operation.READ, ResourceType.TOPIC, DENIED, "each topic")
DESCRIBE_CONFIGS = Need(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, DENIED, "each topic that is made")
DESCRIBE_CLUSTER = Need(Operation.DESCRIBE, ResourceType.CLUSTER, None, "to be told of its operations")
CREATE_ANY = Need(Operation.CREATE, ResourceType.CLUSTER, None, "instead of Create of each topic")
DELETE_ANY = Need(Operation.DELETE, ResourceType.CLUSTER, None, "instead of the two others")
CLUSTER_ACTION = Need(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, None, "instead of Describe of each topic")
CREATE_MISSING = Need(Operation.CREATE, ResourceType.TOPIC, DENIED, "each topic that is to be made")

LIST_OFFSETS = each_topic(
    DESCRIBE,
    TopicShape(
        ListOffsetsTopicResponse,
        lambda one, error: ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=error),
    ),
)
OFFSET_FOR_LEADER_EPOCH = each_topic(
    DESCRIBE,
    TopicShape(
        OffsetForLeaderTopicResult,
        lambda one, error: EpochEndOffset(partition=one.partition, error_code=error),
        name="topic",
    ),
    instead=CLUSTER_ACTION,
)
DELETE_RECORDS = each_topic(
    DELETE,
    TopicShape(
        DeleteRecordsTopicResult,
        lambda one, error: DeleteRecordsPartitionResult(
            partition_index=one.partition_index, low_watermark=-1, error_code=error
        ),
    ),
)
DESCRIBE_PRODUCERS = each_topic(
    READ,
    TopicShape(
        TopicResponse,
        lambda index, error: PartitionResponse(
            partition_index=index, error_code=error, error_message=MESSAGE, active_producers=[]
        ),
        partitions="partition_indexes",
    ),
)


# -- Metadata ------------------------------------------------------------------------------------------------------


async def _metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    refused: list[MetadataResponseTopic] = []
    whole = request.topics is None or (call.context.api_version == 0 and not request.topics)
    if request.topics:
        refused = await _take_unmentionable(call, request.topics, request)
    response: MetadataResponse = await call.answer(request)
    if request.topics == [] and not whole:
        response.topics = []  # to version 0, no topics are all of them
    if whole:
        response.topics, _ = await sift(
            response.topics, lambda topic: permissions.have(DESCRIBE, topic.name or "", quietly=True), time_slice
        )
    if request.include_topic_authorized_operations:

        def with_operations(topic: MetadataResponseTopic) -> MetadataResponseTopic:
            if topic.error_code in NAMELESS:
                return topic
            told = copy(topic)  # it is that of other clients, too
            told.topic_authorized_operations = permissions.operations(ResourceType.TOPIC, topic.name or "")
            return told

        response.topics = await time_slice.each(with_operations, response.topics)
    response.topics += refused
    if request.include_cluster_authorized_operations:
        allowed = permissions.have(DESCRIBE_CLUSTER)
        response.cluster_authorized_operations = permissions.operations(ResourceType.CLUSTER) if allowed else 0
    return response


async def _take_unmentionable(
    call: Call, topics: list[MetadataRequestTopic], request: MetadataRequest
) -> list[MetadataResponseTopic]:
    """Take the topics that the client may not describe out of the request, and those it may not make. What is wrong
    with the request as a whole is for its handler."""
    time_slice = call.time_slice()
    named: dict[tuple[bytes, str | None], MetadataRequestTopic] = {}
    by_id = nameless = False
    for one in topics:
        named[one.topic_id, one.name] = one
        by_id = by_id or one.topic_id != NO_ID
        nameless = nameless or one.name is None
        await time_slice.give_way()
    if (by_id or nameless) and call.context.api_version < IDS_SINCE:
        return []
    directory, config, permissions = call.services.topics, call.services.config, call.permissions
    makes = request.allow_auto_topic_creation or call.context.api_version < CHOICE_SINCE
    makes = makes and config.get_bool("auto.create.topics.enable")
    makes_all = makes and permissions.have(CREATE_ANY, quietly=True)
    refused: list[MetadataResponseTopic] = []

    def is_allowed(topic: MetadataRequestTopic) -> bool:
        name = topic.name
        if topic.topic_id != NO_ID:
            known = directory.by_id(topic.topic_id)
            if known is None or permissions.have(DESCRIBE, known.name):
                return True
            refused.append(_refused(None, topic.topic_id))
            return False
        if by_id or name is None:  # those with ids are answered, and no others
            return True
        if not permissions.have(DESCRIBE, name):
            refused.append(_refused(name))
            return False
        if not makes or makes_all or directory.by_name(name) is not None or permissions.have(CREATE_MISSING, name):
            return True
        refused.append(_refused(name, is_internal=name in INTERNAL_TOPICS))
        return False

    request.topics, _ = await sift(named.values(), is_allowed, time_slice)
    return refused


def _refused(name: str | None, topic_id: bytes = NO_ID, *, is_internal: bool = False) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=DENIED, name=name, topic_id=topic_id, is_internal=is_internal, partitions=[]
    )


METADATA = Guard(
    (DESCRIBE, CREATE_ANY, CREATE_MISSING, DESCRIBE_CLUSTER),
    _metadata,
    "Who asks for all topics is told of those that it may describe.",
)


# -- DescribeTopicPartitions ---------------------------------------------------------------------------------------


async def _describe_topic_partitions(
    call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    permissions, time_slice, cursor = call.permissions, call.time_slice(), request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return await call.answer(request)  # type: ignore[no-any-return]
    names = await time_slice.each(lambda topic: topic.name, request.topics or call.services.topics.all())
    if request.topics and cursor is not None and cursor.topic_name not in names:
        return await call.answer(request)  # type: ignore[no-any-return]
    named, first = bool(request.topics), "" if cursor is None else cursor.topic_name
    wanted, _ = await sift(names, lambda name: name >= first, time_slice)
    allowed, denied = await sift(
        dict.fromkeys(wanted), lambda name: permissions.have(DESCRIBE, name, quietly=not named), time_slice
    )
    response = DescribeTopicPartitionsResponse(topics=[])
    if allowed:
        if first not in allowed:
            request.cursor = None
        request.topics = await time_slice.each(lambda name: DescribedTopic(name=name), allowed)
        response = await call.answer(request)
    for topic in response.topics:
        topic.topic_authorized_operations = permissions.operations(ResourceType.TOPIC, topic.name or "")
        await time_slice.give_way()
    if named:
        response.topics += await time_slice.each(
            lambda name: DescribeTopicPartitionsResponseTopic(
                error_code=DENIED, name=name, topic_id=NO_ID, partitions=[]
            ),
            denied,
        )
    return response


DESCRIBE_TOPIC_PARTITIONS = Guard(
    (DESCRIBE,), _describe_topic_partitions, "Who asks for all topics is told of those that it may describe."
)


# -- making, deleting, growing -------------------------------------------------------------------------------------


async def _create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    everything = permissions.have(CREATE_ANY, quietly=True)
    times_named = Counter(topic.name for topic in request.topics)
    request.topics, denied = await sift(
        request.topics,
        lambda topic: times_named[topic.name] > 1 or everything or permissions.have(CREATE, topic.name),
        time_slice,
    )
    response: CreateTopicsResponse = await call.answer(request)
    for result in response.topics:
        if not result.error_code and not permissions.have(DESCRIBE_CONFIGS, result.name, quietly=True):
            result.topic_config_error_code = DENIED
            result.num_partitions = result.replication_factor = -1
            result.configs = []
        await time_slice.give_way()
    response.topics += await time_slice.each(
        lambda topic: CreatableTopicResult(
            name=topic.name, error_code=DENIED, error_message="Authorization failed.", configs=[]
        ),
        denied,
    )
    return response


CREATE_TOPICS = Guard(
    (CREATE_ANY, CREATE, DESCRIBE_CONFIGS),
    _create_topics,
    "Without DescribeConfigs the topic is made, and how it was made is not told.",
)


async def _delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    if permissions.have(DELETE_ANY, quietly=True) or not call.services.config.get_bool("delete.topic.enable"):
        return await call.answer(request)  # type: ignore[no-any-return]
    topics = request.topics
    if call.context.api_version <= NAMES_UNTIL:
        topics = await time_slice.each(lambda name: DeleteTopicState(name=name), request.topic_names)
    refused: list[DeletableTopicResult] = []

    def is_allowed(topic: DeleteTopicState) -> bool:
        name = topic.name
        if topic.topic_id != NO_ID:
            named = None if name is not None else call.services.topics.by_id(topic.topic_id)
            if named is None:  # nobody's, or a name beside it: the handler says so
                return True
            name = named.name
        if name is None:
            return True
        may_describe = permissions.have(DESCRIBE, name)
        known = call.services.topics.by_name(name) if may_describe else None
        if may_describe and (known is None or permissions.have(DELETE, name)):
            return True
        told = name if topic.name is not None or may_describe else None
        topic_id = topic.topic_id if known is None else known.topic_id
        refused.append(DeletableTopicResult(name=told, topic_id=topic_id, error_code=DENIED, error_message=MESSAGE))
        return False

    allowed, _ = await sift(topics, is_allowed, time_slice)
    request.topics, request.topic_names = allowed, await time_slice.each(lambda topic: topic.name or "", allowed)
    response: DeleteTopicsResponse = await call.answer(request)
    response.responses += refused
    return response


DELETE_TOPICS = Guard(
    (DELETE_ANY, DESCRIBE, DELETE),
    _delete_topics,
    "Of a topic named by its id the name is told only to who may describe it.",
)


async def _create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    times_named = Counter(topic.name for topic in request.topics)
    request.topics, denied = await sift(
        request.topics, lambda topic: times_named[topic.name] > 1 or permissions.have(ALTER, topic.name), time_slice
    )
    response: CreatePartitionsResponse = await call.answer(request)
    response.results += await time_slice.each(
        lambda topic: CreatePartitionsTopicResult(name=topic.name, error_code=DENIED), denied
    )
    return response


CREATE_PARTITIONS = Guard((ALTER,), _create_partitions)
