"""OffsetFetch (9): where a group goes on reading. One group until v7, several from v8 on; inside they are the same."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_offsets import OFFSET_FETCH
from broker.api.services import WithEnvironment, WithGroups, WithTopics
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from coordinator.groups.commits import FETCHED_AT_ONCE, NO_OFFSET, FetchedOffset, FetchedTopic, WantedTopic
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


Ask = Callable[[Sequence[WantedTopic] | Callable[[str], bytes]], Awaitable[list[FetchedTopic] | None]]


class OffsetFetchServices(WithEnvironment, WithGroups, WithTopics, Protocol):
    """What these handlers use of the node."""


@handles(OffsetFetchRequest, OffsetFetchResponse, versions=range(1, 11), guard=OFFSET_FETCH)
async def offset_fetch(
    services: OffsetFetchServices, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """What is committed. Answered when everything it saw is durable (I37).

    v2 null means all topics, and errors of the group stand beside the topics; v5 leader epochs; v7 a client may insist
    on stable offsets: UNSTABLE_OFFSET_COMMIT where a transaction is open (KIP-447); v8 several groups (KIP-709); v9
    member and epoch, which only consumer groups look at (KIP-848); v10 topic ids instead of names.
    """
    time_slice = services.environment.time_slice()
    if context.api_version >= GROUPS_SINCE:
        groups = []
        for group in request.groups:
            groups.append(await _fetch(services, context, group, request.require_stable, time_slice))
            if time_slice.spent():
                await time_slice.wait_for_turn()
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = await time_slice.each(
            lambda topic: OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes),
            request.topics,
        )
    alone = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    fetched = await _fetch(services, context, alone, request.require_stable, time_slice)
    return await _alone(context, alone, fetched, time_slice)


async def _fetch(
    services: OffsetFetchServices,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    time_slice: TimeSlice,
) -> OffsetFetchResponseGroup:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    ask = partial(_ask, services, group, require_stable)

    def topic_id_of(name: str) -> bytes:
        topic = services.topics.by_name(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    try:
        if group.topics is not None:
            topics = await _named(ask, _wanted(services, group.topics, by_id), time_slice)
        elif (fetched := await ask(topic_id_of)) is not None:
            topics = await time_slice.each(_topic, fetched)
        else:
            topics = await _named(ask, await _committed(services, group.group_id, topic_id_of, time_slice), time_slice)
            await time_slice.each(_forget_unknown, topics)
            topics = [topic for topic in topics if topic.partitions]
    except CoordinatorError as refused:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=refused.error)
    if group.topics is None and by_id:
        # A topic that is gone has no id to be named by.
        topics = [topic for topic in topics if topic.topic_id != NO_TOPIC_ID]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


async def _named(ask: Ask, topics: Iterable[WantedTopic], time_slice: TimeSlice) -> list[OffsetFetchResponseTopics]:
    """What is known of these topics, in steps."""
    responses: list[OffsetFetchResponseTopics] = []
    for wanted in _in_steps(topics):
        answers = iter(await ask([topic for topic, _ in wanted if topic.topic]) or ())
        for topic, continued in wanted:
            response = _topic(next(answers) if topic.topic else _unknown(topic))
            if continued:
                responses[-1].partitions.extend(response.partitions)
            else:
                responses.append(response)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return responses


async def _committed(
    services: OffsetFetchServices, group_id: str, topic_id_of: Callable[[str], bytes], time_slice: TimeSlice
) -> list[WantedTopic]:
    """All topics that a group has committed offsets of, as they are now. Raises `CoordinatorError`."""
    known = await services.groups.ask(
        group_id, lambda machine, ticket, now_ms: machine.committed_partitions(group_id, ticket, now_ms)
    )
    indexes: dict[str, list[int]] = {}
    for topic, index in known:
        indexes.setdefault(topic, []).append(index)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return await time_slice.each(lambda topic: WantedTopic(topic, topic_id_of(topic), sorted(indexes[topic])), indexes)


def _forget_unknown(topic: OffsetFetchResponseTopics) -> None:
    """Of an earlier topic of that name, or deleted since."""
    topic.partitions = [one for one in topic.partitions if one.committed_offset != NO_OFFSET or one.error_code]


async def _ask(
    services: OffsetFetchServices,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    wanted: Sequence[WantedTopic] | Callable[[str], bytes],
) -> list[FetchedTopic] | None:
    """What the coordinator knows of some topics, or of all; None where that is too much for one step. Raises
    `CoordinatorError`."""
    return await services.groups.ask(
        group.group_id,
        lambda machine, ticket, now_ms: machine.fetch_offsets(
            group.group_id,
            wanted,
            require_stable=require_stable,
            ticket=ticket,
            now_ms=now_ms,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        ),
    )


def _in_steps(topics: Iterable[WantedTopic]) -> Iterator[list[tuple[WantedTopic, bool]]]:
    """What the coordinator is asked at a time, nearly always all; and whether it goes on with the topic before. It is
    asked once where there are none."""
    step: list[tuple[WantedTopic, bool]] = []
    room = FETCHED_AT_ONCE
    is_first = True
    for topic in topics:
        for begin in range(0, max(len(topic.partitions), 1), FETCHED_AT_ONCE):
            part = topic.partitions[begin : begin + FETCHED_AT_ONCE]
            step.append((WantedTopic(topic.topic, topic.topic_id, part), begin > 0))
            room -= 1 + len(part)
            if room <= 0:
                yield step
                step, room, is_first = [], FETCHED_AT_ONCE, False
    if step or is_first:
        yield step


def _wanted(
    services: OffsetFetchServices, topics: Sequence[OffsetFetchRequestTopics], by_id: bool
) -> Iterator[WantedTopic]:
    """The topics by name and id; the name is empty where the id is nobody's."""
    for topic_request in topics:
        topic = services.topics.by_id(topic_request.topic_id) if by_id else services.topics.by_name(topic_request.name)
        if topic is not None:
            yield WantedTopic(topic.name, topic.topic_id, topic_request.partition_indexes)
        else:
            # A name that is not there may still have offsets; an id that is not there has none.
            yield WantedTopic(topic_request.name, topic_request.topic_id, topic_request.partition_indexes)


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


async def _alone(
    context: RequestContext, wanted: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup, time_slice: TimeSlice
) -> OffsetFetchResponse:
    """The answer in the shape of one group. Version 1 has no place for its error but at each partition."""
    topics: list[OffsetFetchResponseTopic] = []
    for name, partitions in _partitions_of(context, wanted, group):
        responses: list[OffsetFetchResponsePartition] = []
        for one in partitions:
            responses.append(
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
            )
            if time_slice.spent():
                await time_slice.wait_for_turn()
        topics.append(OffsetFetchResponseTopic(name=name, partitions=responses))
        await time_slice.give_way()
    return OffsetFetchResponse(error_code=group.error_code, topics=topics)


def _partitions_of(
    context: RequestContext, wanted: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> Iterator[tuple[str, Iterable[OffsetFetchResponsePartitions]]]:
    if not group.error_code or context.api_version >= GROUP_ERROR_SINCE:
        for topic in group.topics:
            yield topic.name, topic.partitions
        return
    for named in wanted.topics or []:
        yield (
            named.name,
            (
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=group.error_code
                )
                for index in named.partition_indexes
            ),
        )
