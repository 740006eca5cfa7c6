"""DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92): where share groups begin
in partitions, for administrators (KIP-932, KIP-1226). What is between a start offset and the end is nobody's offset.
"""

from collections.abc import Callable
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.share.of_groups import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
)
from broker.api.services import (
    WithCluster,
    WithEnvironment,
    WithGroups,
    WithNodes,
    WithPeerEnds,
    WithShareErrands,
    WithShareState,
    WithTopics,
)
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.share_groups.errands import is_gone
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from coordinator.cluster.features import SHARE_VERSION
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.share.answers import Prepared
from coordinator.machine import Outcome, Ticket
from coordinator.share_state.answers import UNKNOWN_PARTITION, Summary, Verdict
from coordinator.share_state.kept import UNKNOWN_COUNT, ShareKey
from coordinator.share_state.port import NO_START_OFFSET
from protocol.errors import ErrorCode
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
    DescribeOffsetsGroup,
    DescribeOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from protocol.primitives import as_int64

NOT_HOSTED = "This server does not host this topic-partition."
NOTHING_KEPT = "There is no offset information to delete."
NO_GROUP_ID = "The group id is invalid."
UNKNOWN_LAG = -1


class ShareOffsetServices(
    WithCluster,
    WithEnvironment,
    WithGroups,
    WithNodes,
    WithPeerEnds,
    WithShareErrands,
    WithShareState,
    WithTopics,
    Protocol,
):
    """What these handlers use of the node."""


Preparing = Callable[[GroupCoordinator, Ticket[Prepared], int], Outcome[Prepared]]


async def _prepared(services: ShareOffsetServices, group_id: str, prepare: Preparing) -> Prepared:
    """What the group coordinator says to a change."""
    if services.cluster.finalized_features.get(SHARE_VERSION, 0) == 0:
        return Prepared(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return Prepared(ErrorCode.INVALID_GROUP_ID, NO_GROUP_ID)
    try:
        return await services.groups.ask(group_id, prepare)
    except CoordinatorError as refused:
        return Prepared(refused.error)


# -- describing ------------------------------------------------------------------------------------------------------


@handles(
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    versions=range(0, 2),
    guard=DESCRIBE_SHARE_GROUP_OFFSETS,
)
async def describe_share_group_offsets(
    services: ShareOffsetServices, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Where groups begin in partitions: in those named, or in all they share. -1 where they have not begun.

    v1 how many records are left. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION;
    Kafka 4.3 never answers. A group without a name is INVALID_GROUP_ID, where Kafka says UNKNOWN_SERVER_ERROR.
    """
    time_slice = services.environment.time_slice()
    groups = []
    for group in request.groups:
        await time_slice.give_way()
        if services.cluster.finalized_features.get(SHARE_VERSION, 0) == 0:
            error = ErrorCode.UNSUPPORTED_VERSION
            groups.append(DescribedOffsetsGroup(group_id=group.group_id, error_code=error))
        elif not group.group_id and group.topics is not None:
            error = ErrorCode.INVALID_GROUP_ID
            groups.append(DescribedOffsetsGroup(group_id="", error_code=error, error_message=NO_GROUP_ID))
        else:
            groups.append(await _describe_group(services, group, time_slice))
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _describe_group(
    services: ShareOffsetServices, group: DescribeOffsetsGroup, time_slice: TimeSlice
) -> DescribedOffsetsGroup:
    topics = group.topics
    if topics is None:
        try:
            kept = await services.groups.ask(
                group.group_id,
                lambda machine, ticket, now_ms: machine.share_administration.kept(group.group_id, ticket, now_ms),
            )
        except CoordinatorError as refused:
            return DescribedOffsetsGroup(group_id=group.group_id, error_code=refused.error)
        known = ((services.topics.by_id(topic_id), partitions) for topic_id, partitions in kept.items())
        topics = [
            DescribeOffsetsTopic(topic_name=topic.name, partitions=sorted(partitions))
            for topic, partitions in known
            if topic is not None
        ]
    described = [await _describe_topic(services, group.group_id, topic, time_slice) for topic in topics]
    return DescribedOffsetsGroup(group_id=group.group_id, topics=described)


async def _describe_topic(
    services: ShareOffsetServices, group_id: str, wanted: DescribeOffsetsTopic, time_slice: TimeSlice
) -> DescribedOffsetsTopic:
    await time_slice.give_way()
    topic = services.topics.by_name(wanted.topic_name)
    described = DescribedOffsetsTopic(topic_name=wanted.topic_name, partitions=[])
    if topic is not None:
        described.topic_id = topic.topic_id
    for index in wanted.partitions:
        partition = services.topics.partition(wanted.topic_name, index)
        summary: Summary | Verdict = UNKNOWN_PARTITION
        end: int | None = None
        if topic is not None and partition is not None:
            summary = await services.share_state.summarize(ShareKey(group_id, topic.topic_id, index))
            if services.nodes.leads(topic.topic_id, index):
                # Who may have been replaced does not know where it ends.
                end = None if partition.refusal else partition.high_watermark
            elif services.peer_ends is not None:
                end = await services.peer_ends.of(topic, index)
        described.partitions.append(_described(index, end, summary))
        await time_slice.give_way()
    return described


def _described(index: int, end: int | None, summary: Summary | Verdict) -> DescribedOffsetsPartition:
    """`end` of the partition, where somebody can say it."""
    if isinstance(summary, Verdict) and summary.error is ErrorCode.NOT_COORDINATOR:
        # There is no topic yet: nobody has begun anywhere.
        return DescribedOffsetsPartition(partition_index=index)
    if isinstance(summary, Verdict):
        error = summary.error
        message = NOT_HOSTED if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
        return DescribedOffsetsPartition(partition_index=index, error_code=error, error_message=message)
    start, complete, lag = summary.start_offset, summary.delivery_complete_count, UNKNOWN_LAG
    if start != NO_START_OFFSET and complete != UNKNOWN_COUNT and end is not None:
        lag = as_int64(end - start - complete)
    return DescribedOffsetsPartition(
        partition_index=index, start_offset=start, leader_epoch=summary.leader_epoch, lag=lag
    )


# -- setting ---------------------------------------------------------------------------------------------------------


@handles(
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    versions=range(0, 1),
    guard=ALTER_SHARE_GROUP_OFFSETS,
)
async def alter_share_group_offsets(
    services: ShareOffsetServices, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Begin anew with partitions, at offsets that are named; of a group without members, which is made if it is not
    there. Answered when that is durable."""
    group_id = request.group_id
    time_slice = services.environment.time_slice()
    starts: dict[tuple[bytes, int], int] = {}
    for topic in request.topics:
        found = services.topics.by_name(topic.topic_name)
        for one in topic.partitions:
            if found is not None and 0 <= one.partition_index < len(found.partitions):
                starts[found.topic_id, one.partition_index] = one.start_offset
            await time_slice.give_way()
        await time_slice.give_way()
    wanted: dict[bytes, set[int]] = {}
    for topic_id, index in starts:
        wanted.setdefault(topic_id, set()).add(index)
    partitions = {topic_id: frozenset(indexes) for topic_id, indexes in wanted.items()}
    prepared = await _prepared(
        services,
        group_id,
        lambda machine, ticket, now_ms: machine.share_administration.begin_setting(
            group_id, partitions, ticket, now_ms
        ),
    )
    if prepared.errand is None:
        return AlterShareGroupOffsetsResponse(error_code=prepared.error, error_message=prepared.message)
    verdicts = await services.share_errands.initialize(prepared.errand, starts)
    responses = [
        await _altered(services.topics.by_name(topic.topic_name), topic, verdicts, time_slice)
        for topic in request.topics
    ]
    return AlterShareGroupOffsetsResponse(responses=responses)


async def _altered(
    found: Topic | None, topic: AlterOffsetsTopic, verdicts: dict[tuple[bytes, int], Verdict], time_slice: TimeSlice
) -> AlteredOffsetsTopic:
    await time_slice.give_way()
    topic_id = bytes(16) if found is None else found.topic_id
    altered = AlteredOffsetsTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=[])
    for one in topic.partitions:
        error = verdicts.get((topic_id, one.partition_index), UNKNOWN_PARTITION).error
        message = NOT_HOSTED if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
        altered.partitions.append(
            AlteredOffsetsPartition(partition_index=one.partition_index, error_code=error, error_message=message)
        )
        await time_slice.give_way()
    return altered


# -- deleting --------------------------------------------------------------------------------------------------------


@handles(
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    versions=range(0, 1),
    guard=DELETE_SHARE_GROUP_OFFSETS,
)
async def delete_share_group_offsets(
    services: ShareOffsetServices, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Forget where a group without members is in topics, all their partitions. Answered when that is durable."""
    group_id = request.group_id
    time_slice = services.environment.time_slice()
    names = dict.fromkeys(topic.topic_name for topic in request.topics)
    topics = dict(await time_slice.each(lambda name: (name, services.topics.by_name(name)), names))
    topic_ids = [topic.topic_id for topic in topics.values() if topic is not None]
    prepared = await _prepared(
        services,
        group_id,
        lambda machine, ticket, now_ms: machine.share_administration.begin_forgetting(
            group_id, topic_ids, ticket, now_ms
        ),
    )
    errand = prepared.errand
    if errand is None:
        return DeleteShareGroupOffsetsResponse(error_code=prepared.error, error_message=prepared.message)
    verdicts = await services.share_errands.forget(errand)
    errors = {topic_id: verdict.error for (topic_id, _), verdict in verdicts.items() if not is_gone(verdict)}
    responses = []
    for name, topic in topics.items():
        answer = DeletedOffsetsTopic(topic_name=name)
        if topic is None or topic.topic_id not in errand.partitions:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = NOT_HOSTED if topic is None else NOTHING_KEPT
        else:
            answer.topic_id, answer.error_code = topic.topic_id, errors.get(topic.topic_id, ErrorCode.NONE)
        responses.append(answer)
        await time_slice.give_way()
    return DeleteShareGroupOffsetsResponse(responses=responses)
