"""OffsetCommit (8), TxnOffsetCommit (28), OffsetDelete (47), and in `offset_fetch` OffsetFetch (9): how far groups have
read.

Topics that do not exist are refused per partition before the coordinator is called: UNKNOWN_TOPIC_OR_PARTITION by name,
UNKNOWN_TOPIC_ID by id. An offset is kept with the id of its topic, so that a topic made anew begins without any.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_offsets import OFFSET_COMMIT, OFFSET_DELETE, TXN_OFFSET_COMMIT
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
    OffsetDeleteRequestPartition,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10
LOADING_KNOWN_SINCE = 2
"""The first TxnOffsetCommit whose clients retry COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
OFFSETS_PER_STEP = 500
"""One batch of `__consumer_offsets`. A commit of more is several, each judged anew (decision 0016)."""


def has_partition(topic: Topic | None, index: int) -> bool:
    """Whether it exists. Does not open its log, as to ask for the partition itself would."""
    return topic is not None and 0 <= index < len(topic.partitions)


class _ToCommit(Protocol):
    """A partition of an OffsetCommit or a TxnOffsetCommit."""

    @property
    def partition_index(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    @property
    def committed_leader_epoch(self) -> int: ...
    @property
    def committed_metadata(self) -> str | None: ...


class _Sorted:
    """The partitions of a commit: what is wrong with each, and those to ask the coordinator about.

    Errors are kept by position, for nothing keeps a client from naming a partition twice.
    """

    def __init__(self, services: GateServices) -> None:
        self._services = services
        self.time_slice = services.environment.time_slice()
        self.errors: list[list[ErrorCode]] = []
        self.offsets: list[OffsetToCommit] = []
        self._places: list[tuple[int, int]] = []

    async def take_by_name(self, name: str, partitions: Iterable[_ToCommit]) -> None:
        await self._take(self._services.topics.by_name(name), partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def take_by_id(self, topic_id: bytes, partitions: Iterable[_ToCommit]) -> None:
        await self._take(self._services.topics.by_id(topic_id), partitions, ErrorCode.UNKNOWN_TOPIC_ID)

    async def _take(self, topic: Topic | None, partitions: Iterable[_ToCommit], unknown: ErrorCode) -> None:
        """A topic that is deleted meanwhile leaves offsets of an id that is gone, which are never read."""
        errors: list[ErrorCode] = []
        self.errors.append(errors)
        for one in partitions:
            if topic is None:
                errors.append(unknown)
            elif not has_partition(topic, one.partition_index):
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._places.append((len(self.errors) - 1, len(errors)))
                errors.append(ErrorCode.NONE)
                self.offsets.append(
                    OffsetToCommit(
                        topic.name,
                        topic.topic_id,
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                    )
                )
            if self.time_slice.spent():
                await self.time_slice.wait_for_turn()
        await self.time_slice.give_way()

    def steps(self) -> Iterable[tuple[int, list[OffsetToCommit]]]:
        """What the coordinator is asked at a time, and where it begins: nearly always all of it."""
        for begin in range(0, len(self.offsets), OFFSETS_PER_STEP):
            yield begin, self.offsets[begin : begin + OFFSETS_PER_STEP]

    def answered(self, begin: int, errors: Sequence[ErrorCode]) -> None:
        """What the coordinator said of the offsets of one step."""
        for position, error in enumerate(errors, begin):
            topic, partition = self._places[position]
            self.errors[topic][partition] = error

    async def each_error(self, position: int) -> AsyncIterator[ErrorCode]:
        """What to answer for the partitions of one topic of the request."""
        for error in self.errors[position]:
            yield error
            if self.time_slice.spent():
                await self.time_slice.wait_for_turn()
        await self.time_slice.give_way()


@handles(OffsetCommitRequest, OffsetCommitResponse, versions=range(2, 11), guard=OFFSET_COMMIT)
async def offset_commit(
    services: GateServices, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Keep offsets. Answered when they are durable. The empty group id is allowed, as in Kafka, for old clients.

    v5 no retention of its own any more; v6 leader epochs; v7 instance ids; v9 GROUP_ID_NOT_FOUND; v10 topic ids instead
    of names.
    """
    by_id = context.api_version >= TOPIC_IDS_SINCE
    commits = _Sorted(services)
    for topic in request.topics:
        if by_id:
            await commits.take_by_id(topic.topic_id, topic.partitions)
        else:
            await commits.take_by_name(topic.name, topic.partitions)
    for begin, offsets in commits.steps():
        commit = Commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            context.api_version,
            offsets,
            retention_ms=request.retention_time_ms,
        )
        commits.answered(begin, await _commit(services, commit))
    topics: list[OffsetCommitResponseTopic] = []
    for position, topic in enumerate(request.topics):
        indexes = (partition.partition_index for partition in topic.partitions)
        partitions = [
            OffsetCommitResponsePartition(partition_index=next(indexes), error_code=error)
            async for error in commits.each_error(position)
        ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetCommitResponse(topics=topics)


async def _commit(services: GateServices, commit: Commit) -> Sequence[ErrorCode]:
    try:
        return await services.groups.ask(
            commit.group_id, lambda machine, ticket, now_ms: machine.commit_offsets(commit, ticket, now_ms)
        )
    except CoordinatorError as refused:
        return [refused.error] * len(commit.offsets)


@handles(TxnOffsetCommitRequest, TxnOffsetCommitResponse, versions=range(0, 6), guard=TXN_OFFSET_COMMIT)
async def txn_offset_commit(
    services: GateServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Stage offsets in a transaction; they count when it commits. Answered when they are durable.

    First the transaction is verified, or from v5 on the group's partition added to it (KIP-890); then the group judges
    member and generation, in the step that writes (I43). v2 leader epochs; v3 generation and member (KIP-447); v4
    TRANSACTION_ABORTABLE.
    """
    commits = _Sorted(services)
    for topic in request.topics:
        await commits.take_by_name(topic.name, topic.partitions)
    for begin, offsets in commits.steps():
        commits.answered(begin, await _stage(services, context, request, offsets))
    topics: list[TxnOffsetCommitResponseTopic] = []
    for position, topic in enumerate(request.topics):
        indexes = (partition.partition_index for partition in topic.partitions)
        partitions = [
            TxnOffsetCommitResponsePartition(
                partition_index=next(indexes), error_code=_known_to(context.api_version, error)
            )
            async for error in commits.each_error(position)
        ]
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)


async def _stage(
    services: GateServices, context: RequestContext, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit]
) -> Sequence[ErrorCode]:
    if not request.group_id:
        return [ErrorCode.INVALID_GROUP_ID] * len(offsets)
    error = await admit_offset_commit(
        services,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.group_id,
        context.api_version,
    )
    if error is not ErrorCode.NONE:
        return [error] * len(offsets)
    commit = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        context.api_version,
        offsets,
        stamp=ProducerStamp(request.producer_id, request.producer_epoch),
    )
    # Nothing is awaited between the verdict of the gate and this question.
    return await _commit(services, commit)


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if loading and version < LOADING_KNOWN_SINCE else error


@handles(OffsetDeleteRequest, OffsetDeleteResponse, versions=range(0, 1), guard=OFFSET_DELETE)
async def offset_delete(
    services: GateServices, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Forget offsets of topics that the group is not subscribed to. Answered when that is durable.

    An error of the whole group stands alone; those of partitions are beside them.
    """
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID, topics=[])
    time_slice = services.environment.time_slice()
    named = ((topic, partition) for topic in request.topics for partition in topic.partitions)
    wanted: list[tuple[str, int]] = []
    for topic, partition in named:
        if has_partition(services.topics.by_name(topic.name), partition.partition_index):
            wanted.append((topic.name, partition.partition_index))
        await time_slice.give_way()
    try:
        deleted = await delete_offsets(services.groups, request.group_id, wanted)
    except CoordinatorError as refused:
        return OffsetDeleteResponse(error_code=refused.error, topics=[])
    if deleted.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=deleted.error, topics=[])
    known = dict(zip(wanted, deleted.errors, strict=True))
    topics = []
    for topic in request.topics:

        def result_of(partition: OffsetDeleteRequestPartition, name: str = topic.name) -> OffsetDeleteResponsePartition:
            error = known.get((name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)

        partitions = await time_slice.each(result_of, topic.partitions)
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        await time_slice.give_way()
    return OffsetDeleteResponse(topics=topics)
