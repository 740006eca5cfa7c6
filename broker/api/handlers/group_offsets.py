"""OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit: how far groups have read.

Topics that do not exist are refused per partition before the coordinator is asked: UNKNOWN_TOPIC_OR_PARTITION by name,
UNKNOWN_TOPIC_ID by id. An offset is kept with the id of its topic, so that a topic made anew begins without any.
"""

from collections.abc import Iterable, Sequence

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.handlers import offset_fetch
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.groups import delete_offsets
from broker.coordination.transaction_gate import GateServices, admit_offset_commit
from broker.partitions.topic import Topic
from coordinator.groups.commits import Commit, OffsetToCommit
from coordinator.machine import ProducerStamp
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
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["offset_fetch"]

TOPIC_IDS_SINCE = 10
LOADING_KNOWN_SINCE = 2
"""The first TxnOffsetCommit whose clients retry COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


def has_partition(topic: Topic | None, index: int) -> bool:
    """Whether it exists. Does not open its log, as to ask for the partition itself would."""
    return topic is not None and 0 <= index < len(topic.partitions)


class _Sorted:
    """The partitions of a commit: what is wrong with each, and those to ask the coordinator about.

    Errors are kept by position, for nothing keeps a client from naming a partition twice.
    """

    def __init__(self, services: GateServices) -> None:
        self._services = services
        self.errors: list[list[ErrorCode]] = []
        self.offsets: list[OffsetToCommit] = []
        self._places: list[tuple[int, int]] = []

    def topic_by_name(self, name: str, partitions: Iterable[OffsetToCommit]) -> None:
        self._take(self._services.topics.by_name(name), partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def topic_by_id(self, topic_id: bytes, partitions: Iterable[OffsetToCommit]) -> None:
        self._take(self._services.topics.by_id(topic_id), partitions, ErrorCode.UNKNOWN_TOPIC_ID)

    def _take(self, topic: Topic | None, partitions: Iterable[OffsetToCommit], unknown: ErrorCode) -> None:
        errors: list[ErrorCode] = []
        for wanted in partitions:
            if topic is None:
                errors.append(unknown)
                continue
            if not has_partition(topic, wanted.partition):
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            self._places.append((len(self.errors), len(errors)))
            errors.append(ErrorCode.NONE)
            self.offsets.append(
                OffsetToCommit(
                    topic.name, topic.topic_id, wanted.partition, wanted.offset, wanted.leader_epoch, wanted.metadata
                )
            )
        self.errors.append(errors)

    def answered(self, errors: Sequence[ErrorCode]) -> None:
        """What the coordinator said, in the order of `offsets`."""
        for (topic, partition), error in zip(self._places, errors, strict=True):
            self.errors[topic][partition] = error

    def refused(self, error: ErrorCode) -> None:
        self.answered([error] * len(self._places))


@handles(OffsetCommitRequest, OffsetCommitResponse, versions=range(2, 11))
async def offset_commit(
    services: GateServices, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Keep offsets. Answered when they are durable. The empty group id is allowed, as in Kafka, for old clients.

    v5 no retention of its own any more; v6 leader epochs; v7 instance ids; v9 GROUP_ID_NOT_FOUND; v10 topic ids instead
    of names.
    """
    by_id = context.api_version >= TOPIC_IDS_SINCE
    found = _Sorted(services)
    for topic in request.topics:
        partitions = [
            OffsetToCommit(
                topic.name,
                topic.topic_id,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
            )
            for partition in topic.partitions
        ]
        if by_id:
            found.topic_by_id(topic.topic_id, partitions)
        else:
            found.topic_by_name(topic.name, partitions)
    if found.offsets:
        commit = Commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            context.api_version,
            found.offsets,
            retention_ms=request.retention_time_ms,
        )
        await _commit(services, commit, found)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition, error in zip(topic.partitions, errors, strict=True)
                ],
            )
            for topic, errors in zip(request.topics, found.errors, strict=True)
        ]
    )


async def _commit(services: GateServices, commit: Commit, found: _Sorted) -> None:
    try:
        found.answered(
            await services.groups.ask(
                commit.group_id, lambda machine, ticket, now_ms: machine.commit_offsets(commit, ticket, now_ms)
            )
        )
    except CoordinatorError as refused:
        found.refused(refused.error)


@handles(TxnOffsetCommitRequest, TxnOffsetCommitResponse, versions=range(0, 6))
async def txn_offset_commit(
    services: GateServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Stage offsets in a transaction; they count when it commits. Answered when they are durable.

    First the transaction is verified, or from v5 on the group's partition added to it (KIP-890); then the group judges
    member and generation, in the step that writes (I43). v2 leader epochs; v3 generation and member (KIP-447); v4
    TRANSACTION_ABORTABLE.
    """
    found = _Sorted(services)
    for topic in request.topics:
        partitions = [
            OffsetToCommit(
                topic.name,
                topic.topic_id,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
            )
            for partition in topic.partitions
        ]
        found.topic_by_name(topic.name, partitions)
    if found.offsets:
        await _stage(services, context, request, found)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_known_to(context.api_version, error),
                    )
                    for partition, error in zip(topic.partitions, errors, strict=True)
                ],
            )
            for topic, errors in zip(request.topics, found.errors, strict=True)
        ]
    )


async def _stage(
    services: GateServices, context: RequestContext, request: TxnOffsetCommitRequest, found: _Sorted
) -> None:
    if not request.group_id:
        found.refused(ErrorCode.INVALID_GROUP_ID)
        return
    error = await admit_offset_commit(
        services,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.group_id,
        context.api_version,
    )
    if error is not ErrorCode.NONE:
        found.refused(error)
        return
    commit = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        context.api_version,
        found.offsets,
        stamp=ProducerStamp(request.producer_id, request.producer_epoch),
    )
    # Nothing is awaited between the verdict of the gate and this question.
    await _commit(services, commit, found)


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if loading and version < LOADING_KNOWN_SINCE else error


@handles(OffsetDeleteRequest, OffsetDeleteResponse, versions=range(0, 1))
async def offset_delete(
    services: GateServices, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Forget offsets of topics that the group is not subscribed to. Answered when that is durable.

    An error of the whole group stands alone; those of partitions are beside them.
    """
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID, topics=[])
    wanted = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if has_partition(services.topics.by_name(topic.name), partition.partition_index)
    ]
    try:
        deleted = await delete_offsets(services.groups, request.group_id, wanted)
    except CoordinatorError as refused:
        return OffsetDeleteResponse(error_code=refused.error, topics=[])
    if deleted.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=deleted.error, topics=[])
    known = dict(zip(wanted, deleted.errors, strict=True))
    topics = []
    for topic in request.topics:
        partitions = [
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index,
                error_code=known.get((topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            )
            for partition in topic.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return OffsetDeleteResponse(topics=topics)
