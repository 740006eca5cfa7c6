"""OffsetFetch: where a group goes on reading. One group until v7, several from v8 on; inside they are the same."""

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.services import WithGroups, WithTopics
from broker.coordination.coordinators import CoordinatorError
from coordinator.groups.commits import NO_OFFSET, FetchedOffset, FetchedTopic, WantedTopic
from coordinator.groups.offsets import NO_TOPIC_ID
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_SINCE = 2
GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10


class OffsetFetchServices(WithGroups, WithTopics, Protocol):
    """What these handlers use of the node."""


@handles(OffsetFetchRequest, OffsetFetchResponse, versions=range(1, 11))
async def offset_fetch(
    services: OffsetFetchServices, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """What is committed. Answered when everything it saw is durable (I37).

    v2 null means all topics, and errors of the group stand beside the topics; v5 leader epochs; v7 a client may insist
    on stable offsets: UNSTABLE_OFFSET_COMMIT where a transaction is open (KIP-447); v8 several groups (KIP-709); v9
    member and epoch, which say nothing about classic groups; v10 topic ids instead of names.
    """
    if context.api_version >= GROUPS_SINCE:
        groups = [await _fetch(services, context, group, request.require_stable) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    alone = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _alone(context, alone, await _fetch(services, context, alone, request.require_stable))


async def _fetch(
    services: OffsetFetchServices, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    wanted = _wanted(services, group.topics or [], by_id)
    known = [topic for topic in wanted if topic.topic]

    def topic_id_of(name: str) -> bytes:
        topic = services.topics.by_name(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    asked: Sequence[WantedTopic] | Callable[[str], bytes] = topic_id_of if group.topics is None else known
    try:
        fetched: list[FetchedTopic] = await services.groups.ask(
            group.group_id,
            lambda machine, ticket, now_ms: machine.fetch_offsets(
                group.group_id, asked, require_stable=require_stable, ticket=ticket, now_ms=now_ms
            ),
        )
    except CoordinatorError as refused:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=refused.error)
    if group.topics is None:
        # A topic that is gone has no id to be named by.
        found = [topic for topic in fetched if not by_id or topic.topic_id != NO_TOPIC_ID]
    else:
        answers = iter(fetched)
        found = [next(answers) if topic.topic else _unknown(topic) for topic in wanted]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=[_topic(topic) for topic in found])


def _wanted(
    services: OffsetFetchServices, topics: Sequence[OffsetFetchRequestTopics], by_id: bool
) -> list[WantedTopic]:
    """The topics by name and id; the name is empty where the id is nobody's."""
    wanted = []
    for asked in topics:
        topic = services.topics.by_id(asked.topic_id) if by_id else services.topics.by_name(asked.name)
        if topic is not None:
            wanted.append(WantedTopic(topic.name, topic.topic_id, asked.partition_indexes))
        else:
            # A name that is not there may still have offsets; an id that is not there has none.
            wanted.append(WantedTopic(asked.name, asked.topic_id, asked.partition_indexes))
    return wanted


def _unknown(topic: WantedTopic) -> FetchedTopic:
    partitions = [FetchedOffset(partition, error=ErrorCode.UNKNOWN_TOPIC_ID) for partition in topic.partitions]
    return FetchedTopic(topic.topic, topic.topic_id, partitions)


def _topic(topic: FetchedTopic) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=found.partition,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=found.error,
            )
            for found in topic.partitions
        ],
    )


def _alone(
    context: RequestContext, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """The answer in the shape of one group. Version 1 has no place for its error but at each partition."""
    topics = group.topics
    if group.error_code and context.api_version < GROUP_ERROR_SINCE:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=partition, committed_offset=NO_OFFSET, error_code=group.error_code
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in asked.topics or []
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=found.partition_index,
                        committed_offset=found.committed_offset,
                        committed_leader_epoch=found.committed_leader_epoch,
                        metadata=found.metadata,
                        error_code=found.error_code,
                    )
                    for found in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
