"""InitializeShareGroupState (83) to ReadShareGroupStateSummary (87): what is kept of share partitions (KIP-932).

Leaders and group coordinators in other nodes ask these; those in this node ask without them. Who asks gets what this
node keeps itself, and NOT_COORDINATOR of what another does: nothing is passed on. Each partition has an error of its
own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.share.of_state import brokers_only
from broker.api.services import WithEnvironment, WithShareState
from coordinator.share_state.answers import Verdict
from coordinator.share_state.kept import ShareKey, Write
from coordinator.share_state.port import StateBatch as Batch
from protocol.errors import ErrorCode
from protocol.messages.share.state import (
    DeletePartitionData,
    DeletePartitionResult,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    InitializePartitionData,
    InitializePartitionResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    ReadPartitionData,
    ReadPartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateResult,
    ReadStateSummaryResult,
    StateBatch,
    SummaryPartitionData,
    SummaryPartitionResult,
    WritePartitionData,
    WritePartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

R = TypeVar("R")

MESSAGES = {
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
}
"""Kafka's sentences."""
AT_ONCE = 64
"""How many partitions of a request are worked on at a time: their records share a sync."""


class StateServices(WithEnvironment, WithShareState, Protocol):
    """What these handlers use of the node."""


def _said(verdict: Verdict) -> dict[str, Any]:
    """An error as the results of partitions have it."""
    message = verdict.message or MESSAGES.get(verdict.error)
    return {"error_code": verdict.error, "error_message": message}


def _told(batch: Batch) -> StateBatch:
    return StateBatch(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )


def _heard(batch: StateBatch) -> Batch:
    return Batch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


def _refused_by(response: type, topic_result: type, result: type) -> Callable[[Any, ErrorCode], Any]:
    """Makes the answer to a request nothing of which is allowed."""

    def refused(request: Any, error: ErrorCode) -> Any:
        said = _said(Verdict(error))
        return response(
            results=[
                topic_result(
                    topic_id=topic.topic_id,
                    partitions=[result(partition=one.partition, **said) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    return refused


async def _each(
    services: StateServices, request: Any, topic_result: type, ask: Callable[[ShareKey, Any], Awaitable[R]]
) -> list[Any]:
    """The results of a request, `ask` making one for each partition. Nothing is asked for a group without a name, as
    in Kafka."""
    if not request.group_id:
        return []
    time_slice = services.environment.time_slice()
    results = []
    for topic in request.topics:
        made: list[R] = []
        for first in range(0, len(topic.partitions), AT_ONCE):
            wanted: Sequence[Any] = topic.partitions[first : first + AT_ONCE]
            topic_id = bytes(topic.topic_id)
            keys = [(ShareKey(request.group_id, topic_id, one.partition), one) for one in wanted]
            made += await asyncio.gather(*(ask(key, one) for key, one in keys))
            await time_slice.give_way()
        results.append(topic_result(topic_id=topic.topic_id, partitions=made))
        await time_slice.give_way()
    return results


@handles(
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    versions=range(0, 1),
    guard=brokers_only(
        _refused_by(InitializeShareGroupStateResponse, InitializeStateResult, InitializePartitionResult)
    ),
)
async def initialize_share_group_state(
    services: StateServices, context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Begin anew with share partitions, with a state epoch that fences who knew them before. Answered when that is
    durable."""

    async def initialize(key: ShareKey, one: InitializePartitionData) -> InitializePartitionResult:
        verdict = await services.share_state.here.initialize(
            key, state_epoch=one.state_epoch, start_offset=one.start_offset
        )
        return InitializePartitionResult(partition=one.partition, **_said(verdict))

    return InitializeShareGroupStateResponse(results=await _each(services, request, InitializeStateResult, initialize))


@handles(
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    versions=range(0, 1),
    guard=brokers_only(_refused_by(ReadShareGroupStateResponse, ReadStateResult, ReadPartitionResult)),
)
async def read_share_group_state(
    services: StateServices, context: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    """All that is kept of share partitions. A newer leader epoch is durable before the answer, and fences older
    ones."""

    time_slice = services.environment.time_slice()

    async def read(key: ShareKey, one: ReadPartitionData) -> ReadPartitionResult:
        state = await services.share_state.here.read(key, one.leader_epoch)
        if isinstance(state, Verdict):
            return ReadPartitionResult(partition=one.partition, **_said(state))
        return ReadPartitionResult(
            partition=one.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=await time_slice.each(_told, state.batches),
        )

    return ReadShareGroupStateResponse(results=await _each(services, request, ReadStateResult, read))


@handles(
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    versions=range(0, 2),
    guard=brokers_only(_refused_by(WriteShareGroupStateResponse, WriteStateResult, WritePartitionResult)),
)
async def write_share_group_state(
    services: StateServices, context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Keep what has become of records. Answered when that is durable.

    v1 how many deliveries are complete (KIP-1226).
    """

    time_slice = services.environment.time_slice()

    async def write(key: ShareKey, one: WritePartitionData) -> WritePartitionResult:
        batches = await time_slice.each(_heard, one.state_batches)
        change = Write(one.leader_epoch, one.start_offset, one.delivery_complete_count, tuple(batches))
        verdict = await services.share_state.here.write(key, one.state_epoch, change)
        return WritePartitionResult(partition=one.partition, **_said(verdict))

    return WriteShareGroupStateResponse(results=await _each(services, request, WriteStateResult, write))


@handles(
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    versions=range(0, 1),
    guard=brokers_only(_refused_by(DeleteShareGroupStateResponse, DeleteStateResult, DeletePartitionResult)),
)
async def delete_share_group_state(
    services: StateServices, context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Keep nothing of share partitions any more. Answered when that is durable."""

    async def delete(key: ShareKey, one: DeletePartitionData) -> DeletePartitionResult:
        return DeletePartitionResult(partition=one.partition, **_said(await services.share_state.here.delete(key)))

    return DeleteShareGroupStateResponse(results=await _each(services, request, DeleteStateResult, delete))


@handles(
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    versions=range(0, 2),
    guard=brokers_only(_refused_by(ReadShareGroupStateSummaryResponse, ReadStateSummaryResult, SummaryPartitionResult)),
)
async def read_share_group_state_summary(
    services: StateServices, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Where share partitions begin, without their batches; no leader epoch is looked at. v1 how many deliveries are
    complete (KIP-1226)."""

    async def summarize(key: ShareKey, one: SummaryPartitionData) -> SummaryPartitionResult:
        summary = await services.share_state.here.summarize(key)
        if isinstance(summary, Verdict):
            return SummaryPartitionResult(partition=one.partition, **_said(summary))
        return SummaryPartitionResult(
            partition=one.partition,
            state_epoch=summary.state_epoch,
            leader_epoch=summary.leader_epoch,
            start_offset=summary.start_offset,
            delivery_complete_count=summary.delivery_complete_count,
        )

    results = await _each(services, request, ReadStateSummaryResult, summarize)
    return ReadShareGroupStateSummaryResponse(results=results)
