"""ListOffsets (2), DeleteRecords (21), OffsetForLeaderEpoch (23): where partitions begin and end, what lies at a time
or an epoch, and moving the beginning.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_topics import DELETE_RECORDS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from broker.api.services import WithEnvironment, WithTopics
from broker.partitions.errors import PartitionError, storage_error
from broker.partitions.opening import BatchOpener
from broker.partitions.partition import Partition
from broker.process.logging import EventLog
from broker.process.time_slice import TimeSlice
from broker.upkeep.checkpoints import Checkpoints
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from storage.log import LogClosed, LogDamaged, OffsetOutOfRange, TimestampedOffset
from storage.steps import Spent, Steps

_log = EventLog("offsets")

READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)
CONSUMER = -1
"""The replica id of an ordinary reader; whoever else looks is told the end, whatever isolation it asks for."""
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
LOW_WATERMARK_UNKNOWN = -1
Confirm = Callable[[Partition], Awaitable[bool]]


class OffsetServices(WithTopics, WithEnvironment, Protocol):
    """What these handlers use of the node."""

    @property
    def batch_opener(self) -> BatchOpener: ...

    @property
    def checkpoints(self) -> Checkpoints: ...


@handles(ListOffsetsRequest, ListOffsetsResponse, versions=range(1, 12), guard=LIST_OFFSETS)
async def list_offsets(
    services: OffsetServices, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """The offset of a time, of the beginning or of the end, per partition. Answers at once, or when it has looked:
    batches that have to be opened for a time are opened beside other work, and those that cannot be read are passed
    over.

    A reader of committed records finds nothing at or beyond the last stable offset, and its end is there (I32). v2
    isolation level; v4 leader epochs; v7 the record with the largest timestamp (-3, KIP-734); v8 the local beginning
    (-4), which is the beginning; v9 and v11 the end of what is tiered (-5) and the beginning of what is to be (-6):
    nothing ever is, so both are unknown. A partition that is named twice is refused, and answered once.
    """
    requested = ((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    await _wait_a_moment(services, requested)
    slice_ = services.environment.time_slice()
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        times_named = Counter(wanted.partition_index for wanted in topic.partitions)
        partitions: list[ListOffsetsPartitionResponse] = []
        for wanted in {one.partition_index: one for one in topic.partitions}.values():
            result = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            if times_named[wanted.partition_index] > 1 or request.isolation_level not in ISOLATION_LEVELS:
                result.error_code = ErrorCode.INVALID_REQUEST
            else:
                partition = services.topics.partition(topic.name, wanted.partition_index)
                result.error_code = _epoch_error(partition, wanted.current_leader_epoch)
                if partition is not None and not result.error_code:
                    committed = request.isolation_level == READ_COMMITTED and request.replica_id == CONSUMER
                    try:
                        await _look_up(
                            services.batch_opener, slice_, partition, wanted, result, read_committed=committed
                        )
                    except LogDamaged as damaged:
                        result.error_code = storage_error(damaged)
                    except OSError as error:
                        _log.error("a partition cannot be read", partition=partition.name, reason=error)
                        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            partitions.append(result)
            if slice_.spent():
                await slice_.wait_for_turn()
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        await slice_.give_way()
    return ListOffsetsResponse(topics=topics)


async def _wait_a_moment(services: OffsetServices, wanted: Iterable[tuple[str, int]]) -> None:
    """For logs that are still being opened."""
    topics = services.topics
    await topics.to_open.wait_a_moment((topics.by_name(name), index) for name, index in wanted)


async def _look_up(
    opener: BatchOpener,
    slice_: TimeSlice,
    partition: Partition,
    wanted: ListOffsetsPartition,
    result: ListOffsetsPartitionResponse,
    *,
    read_committed: bool,
) -> None:
    time = wanted.timestamp
    if time == LATEST:
        result.offset, result.leader_epoch = (
            partition.visible_end(read_committed=read_committed),
            partition.leader_epoch,
        )
    elif time in (EARLIEST, EARLIEST_LOCAL):
        result.offset, result.leader_epoch = partition.log_start_offset, _epoch_at_start(partition)
    elif time in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        pass  # nothing lies elsewhere, or is to
    elif time < 0 and time != MAX_TIMESTAMP:
        result.error_code = ErrorCode.UNSUPPORTED_VERSION
    else:

        def lookup(spent: Spent) -> Steps[TimestampedOffset | None]:
            if time == MAX_TIMESTAMP:
                return partition.max_timestamp(read_committed=read_committed, spent=spent)
            return partition.offset_for_timestamp(time, read_committed=read_committed, spent=spent)

        try:
            found = await opener.look_up(lookup, slice_)
        except LogClosed:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return
        if found is not None:
            result.timestamp, result.offset, result.leader_epoch = found.timestamp_ms, found.offset, found.leader_epoch


def _epoch_at_start(partition: Partition) -> int:
    """The epoch of the first record, or ours where there is none."""
    epoch = partition.log.first_epoch()
    return epoch if epoch >= 0 and partition.end_offset > partition.log_start_offset else partition.leader_epoch


def _epoch_error(partition: Partition | None, known_epoch: int) -> ErrorCode:
    """KIP-320: what the client believes of the leader."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.refusal:
        return partition.refusal
    if known_epoch < 0 or known_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if known_epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


@handles(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, versions=range(2, 5), guard=OFFSET_FOR_LEADER_EPOCH)
async def offset_for_leader_epoch(
    services: OffsetServices, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Where an epoch ended: how a client finds out whether what it has read was truncated. Answers at once.

    The largest epoch up to the one asked for, and its end; (-1, -1) for an epoch still to come. v3 replica id, ignored.
    """
    requested = ((topic.topic, one.partition) for topic in request.topics for one in topic.partitions)
    await _wait_a_moment(services, requested)
    time_slice = services.environment.time_slice()
    topics: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        partitions: list[EpochEndOffset] = []
        for wanted in topic.partitions:
            partitions.append(_epoch_end(services.topics.partition(topic.topic, wanted.partition), wanted))
            if time_slice.spent():
                await time_slice.wait_for_turn()
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        await time_slice.give_way()
    return OffsetForLeaderEpochResponse(topics=topics)


def _epoch_end(partition: Partition | None, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    response = EpochEndOffset(partition=wanted.partition)
    response.error_code = _epoch_error(partition, wanted.current_leader_epoch)
    if partition is not None and not response.error_code:
        if wanted.leader_epoch == partition.leader_epoch:
            response.leader_epoch, response.end_offset = partition.leader_epoch, partition.high_watermark
        else:
            response.leader_epoch, response.end_offset = partition.log.epoch_end(wanted.leader_epoch)
    return response


@handles(DeleteRecordsRequest, DeleteRecordsResponse, versions=range(0, 3), guard=DELETE_RECORDS)
async def delete_records(
    services: OffsetServices, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Move the beginning of partitions forward; -1 means up to the high watermark. What is appended and not committed
    yet is waited for: a client whose acks=1 were answered may delete what it has written.

    The new beginning holds at once and is answered when it is written down: no restart brings records back (Kafka
    writes it down with the next checkpoint). Compacted topics refuse (44), and at every node those of coordinators, of
    which only coordinators know what may go (17). A partition that is named twice is answered once, and its last offset
    holds, as in Kafka.
    """
    requested = ((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    await _wait_a_moment(services, requested)
    time_slice = services.environment.time_slice()
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        named = wanted.setdefault(topic.name, {})
        for one in topic.partitions:
            named[one.partition_index] = one
            if time_slice.spent():
                await time_slice.wait_for_turn()
        await time_slice.give_way()
    lost = await _until_committed(services, wanted)
    topics: list[DeleteRecordsTopicResult] = []
    deleted: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
    for name, named in wanted.items():
        topics.append(DeleteRecordsTopicResult(name=name, partitions=[]))
        for index, one in named.items():
            partition = services.topics.partition(name, index)
            result = _delete(partition, one, lost.get((name, index)))
            topics[-1].partitions.append(result)
            if partition is not None and result.error_code == ErrorCode.NONE:
                deleted.append((partition, result))
            elif partition is not None and result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await _unless_replaced(partition, result, services.topics.led.confirm)
            if time_slice.spent():
                await time_slice.wait_for_turn()
        await time_slice.give_way()
    if deleted:
        await services.checkpoints.write()
    for partition, result in deleted:
        await _until_written(partition, result, services.topics.led.confirm)
        await time_slice.give_way()
    return DeleteRecordsResponse(topics=topics)


async def _until_committed(
    services: OffsetServices, wanted: Mapping[str, Mapping[int, DeleteRecordsPartition]]
) -> dict[tuple[str, int], BaseException]:
    """Waits for what is appended and is to be deleted; why some of it was not committed, as far as is known here. Up to
    the high watermark means up to where a node that knows more may have shown records already."""
    time_slice = services.environment.time_slice()
    waits: dict[tuple[str, int], asyncio.Future[None]] = {}
    for name, named in wanted.items():
        for index, one in named.items():
            partition = services.topics.partition(name, index)
            if partition is not None and name not in INTERNAL_TOPICS and one.offset <= partition.end_offset:
                wait = partition.committed(one.offset if one.offset >= 0 else partition.end_offset)
                if wait is not None:
                    waits[name, index] = wait
            if time_slice.spent():
                await time_slice.wait_for_turn()
        await time_slice.give_way()
    ended = await asyncio.gather(*waits.values(), return_exceptions=True)
    return {place: error for place, error in zip(waits, ended, strict=True) if error is not None}


async def _unless_replaced(partition: Partition, result: DeleteRecordsPartitionResult, confirm: Confirm | None) -> None:
    """What is answered without a commit, a leader that was replaced would answer as well: another may know more."""
    if confirm is not None and not await confirm(partition):
        result.error_code, result.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, LOW_WATERMARK_UNKNOWN


async def _until_written(partition: Partition, result: DeleteRecordsPartitionResult, confirm: Confirm | None) -> None:
    """Until whoever takes the partition over begins it there, too. One that is another's by now has deleted nothing:
    the commit is refused, and where there is none, the store is asked (`confirm`)."""
    start_offset, log = result.low_watermark, partition.log
    if log.written_start >= start_offset:
        await _unless_replaced(partition, result, confirm)
        return
    moved = asyncio.Event()
    partition.watch(moved.set)
    try:
        while log.written_start < start_offset and not partition.discarded:
            moved.clear()
            await moved.wait()
    finally:
        partition.unwatch(moved.set)
    if partition.discarded:  # A log does not know whether its last commit was refused: who gives it up does.
        result.error_code, result.low_watermark = partition.gone, LOW_WATERMARK_UNKNOWN


def _delete(
    partition: Partition | None, wanted: DeleteRecordsPartition, lost: BaseException | None
) -> DeleteRecordsPartitionResult:
    """`lost`: what was waited for is not known to be committed. It may be all the same, and another node may show it by
    now: the client is to come again, and not to hear that there is no such offset."""
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=LOW_WATERMARK_UNKNOWN)
    if partition is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return result
    if partition.topic in INTERNAL_TOPICS:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return result
    if lost is not None:
        result.error_code = lost.code if isinstance(lost, PartitionError) else ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        result.low_watermark = partition.delete_records(wanted.offset)
    except OffsetOutOfRange:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    except PartitionError as refused:
        result.error_code = refused.code
    return result
