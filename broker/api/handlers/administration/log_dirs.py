"""AlterReplicaLogDirs (34), DescribeLogDirs (35): the data folder, and what of it each partition takes."""

from collections.abc import AsyncIterator
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_administration import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS
from broker.api.services import WithConfig, WithEnvironment, WithTopics
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from protocol.errors import ErrorCode
from protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.files import Space

UNKNOWN_SPACE = Space(-1, -1)


class LogDirServices(WithConfig, WithEnvironment, WithTopics, Protocol):
    """What these handlers use of the node."""


@handles(DescribeLogDirsRequest, DescribeLogDirsResponse, versions=range(1, 6), guard=DESCRIBE_LOG_DIRS)
async def describe_log_dirs(
    services: LogDirServices, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe the data folder: the size of each partition's log in bytes. Answered at once.

    No topics (null) means all; what is not there is left out, as are logs that are not open. Nothing is ever moved
    between folders, so no log is a future one, and none lags behind. v3: an error of the whole; v4: how large its file
    system is and how much of it can be used (KIP-827), -1 where nobody knows, as for a broker in memory; v5: whether
    it is closed to new partitions, which it is not.
    """
    time_slice = services.environment.time_slice()
    topics = [topic async for topic in _described(services, request, time_slice)]
    space = await _space(services)
    folder = DescribeLogDirsResult(
        log_dir=_path(services), topics=topics, total_bytes=space.total_bytes, usable_bytes=space.usable_bytes
    )
    return DescribeLogDirsResponse(results=[folder])


async def _space(services: LogDirServices) -> Space:
    if not services.config.has_files:
        return UNKNOWN_SPACE
    try:
        return await services.environment.run_blocking(services.environment.files.space)
    except OSError:
        return UNKNOWN_SPACE


async def _described(
    services: LogDirServices, request: DescribeLogDirsRequest, time_slice: TimeSlice
) -> AsyncIterator[DescribeLogDirsTopic]:
    """The topics that are asked for, as far as something is known of them."""
    if request.topics is None:
        wanted: dict[str, set[int] | None] = dict.fromkeys(topic.name for topic in services.topics.all())
    else:
        named: dict[str, set[int]] = {}
        for one in request.topics:
            named.setdefault(one.topic, set()).update(one.partitions)
            await time_slice.give_way()
        wanted = {**named}
    for name, indexes in wanted.items():
        topic = services.topics.by_name(name)
        if topic is not None and (partitions := await _sizes(topic, indexes, time_slice)):
            yield DescribeLogDirsTopic(name=name, partitions=partitions)


async def _sizes(topic: Topic, indexes: set[int] | None, time_slice: TimeSlice) -> list[DescribeLogDirsPartition]:
    """Of those partitions that are open."""
    return await time_slice.each(
        lambda one: DescribeLogDirsPartition(partition_index=one.index, partition_size=one.log.size_bytes),
        [one for one in topic.partitions.opened() if indexes is None or one.index in indexes],
    )


def _path(services: LogDirServices) -> str:
    return services.config.place


@handles(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, versions=range(1, 3), guard=ALTER_REPLICA_LOG_DIRS)
async def alter_replica_log_dirs(
    services: LogDirServices, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Say in which folder partitions are to be: here they all are in the one there is, which changes nothing. Answered
    at once.

    Any other folder is LOG_DIR_NOT_FOUND, whether or not there is such a partition. For a partition that is named twice
    the last folder counts.
    """
    time_slice, own = services.environment.time_slice(), _path(services)
    wanted: dict[str, dict[int, str]] = {}
    for folder in request.dirs:
        for topic in folder.topics:
            if topic.partitions:
                wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, folder.path))
            await time_slice.give_way()
    results: list[AlterReplicaLogDirTopicResult] = []
    for name, paths in wanted.items():
        found = services.topics.by_name(name)
        count = 0 if found is None else len(found.partitions)

        def result_of(one: tuple[int, str], count: int = count) -> AlterReplicaLogDirPartitionResult:
            index, path = one
            error = ErrorCode.NONE if 0 <= index < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = error if path == own else ErrorCode.LOG_DIR_NOT_FOUND
            return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)

        partitions = await time_slice.each(result_of, paths.items())
        results.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions))
    return AlterReplicaLogDirsResponse(results=results)
