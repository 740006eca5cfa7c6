"""WriteTxnMarkers (27): a coordinator, or an operator, ends a transaction in given partitions."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_nodes import NodeServices, comes_as_a_node
from broker.api.permissions.of_transactions import WRITE_TXN_MARKERS
from broker.api.services import WithEnvironment, WithTopics, WithTransactions
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.marker_writer import LocalMarkerWriter, write_marker
from broker.coordination.transactions import HOLD_MS
from broker.partitions.partition import Partition
from broker.process.time_slice import TimeSlice
from coordinator.machine import Marker
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import NO_TOPIC_ID, Transaction, TransactionState, contains
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Written = ErrorCode | asyncio.Future[ErrorCode]
"""What became of a marker, or will."""
Results = dict[str, dict[int, Written]]
"""By topic and partition."""


class MarkerServices(NodeServices, WithEnvironment, WithTopics, WithTransactions, Protocol):
    """What these handlers use of the node."""

    @property
    def coordinator_markers(self) -> LocalMarkerWriter: ...

    @property
    def operator_markers(self) -> LocalMarkerWriter: ...


@handles(WriteTxnMarkersRequest, WriteTxnMarkersResponse, versions=range(1, 3), guard=WRITE_TXN_MARKERS)
async def write_txn_markers(
    services: MarkerServices, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Append a marker to each partition; answered when all are durable. v2 the transaction version (KIP-1228).

    Where the transaction is open at the coordinator of this node, an abort (`kafka-transactions --abort`) ends it
    there, in all its partitions; Kafka writes just the marker, and the client may go on and commit half a
    transaction. A commit of such a transaction is refused. While coordinators load, nobody knows whose transaction it
    is: NOT_LEADER_OR_FOLLOWER, which operators' tools repeat; of several nodes none knows all, and this one looks at
    its own. What a coordinator in another node has decided is written as it is: a coordinator here that knows of the
    transaction is one that was, and would refuse what is right. Such a node names a topic with its id, in a tag of
    ours, and none that was made again under its name gets the marker. One result for each producer, however many its
    markers.
    """
    time_slice = services.environment.time_slice()
    is_decided = comes_as_a_node(services, context)
    writer = services.coordinator_markers if is_decided else services.operator_markers
    results: dict[int, Results] = {}
    for marker in request.markers:
        by_topic = results.setdefault(marker.producer_id, {})
        through_owner: ErrorCode | None = None
        for topic in marker.topics:
            for index in topic.partition_indexes:
                if through_owner is None:
                    owner = None if is_decided else services.transactions.owner_of(marker.producer_id)
                if services.nodes.is_alone and not services.transactions.all_loaded:
                    written: Written = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif owner is not None and contains(owner[1].partitions, topic.name, NO_TOPIC_ID, index):
                    if through_owner is None:
                        partition = services.topics.partition(topic.name, index)
                        through_owner = await _end_through_coordinator(services, owner[0], owner[1], marker, partition)
                    written = through_owner
                else:
                    written = _write(services, writer, marker, topic, index)
                by_topic.setdefault(topic.name, {})[index] = written
                if time_slice.spent():
                    await time_slice.wait_for_turn()
            await time_slice.give_way()
        await time_slice.give_way()
    return await _answer(results, time_slice)


async def _answer(results: Mapping[int, Results], time_slice: TimeSlice) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse(markers=[])
    for producer_id, by_topic in results.items():
        result = WritableTxnMarkerResult(producer_id=producer_id, topics=[])
        response.markers.append(result)
        for name, partitions in by_topic.items():
            told: list[WritableTxnMarkerPartitionResult] = []
            result.topics.append(WritableTxnMarkerTopicResult(name=name, partitions=told))
            for index, written in partitions.items():
                told.append(await _told(index, written))
                if time_slice.spent():
                    await time_slice.wait_for_turn()
            await time_slice.give_way()
        await time_slice.give_way()
    return response


async def _told(index: int, written: Written) -> WritableTxnMarkerPartitionResult:
    error = written if isinstance(written, ErrorCode) else await written
    if error is ErrorCode.UNKNOWN_TOPIC_ID:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)


def _write(
    services: MarkerServices,
    writer: LocalMarkerWriter,
    marker_request: WritableTxnMarker,
    topic: WritableTxnMarkerTopic,
    index: int,
) -> Written:
    found = services.topics.by_name(topic.name)
    if found is None or not 0 <= index < len(found.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.topic_id not in (NO_TOPIC_ID, found.topic_id):
        # It was made anew, as far as one of the two nodes knows. It may not be this one: not UNKNOWN_TOPIC_ID, after
        # which nobody would come again.
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    marker = Marker(
        producer_id=marker_request.producer_id,
        producer_epoch=marker_request.producer_epoch,
        commit=marker_request.transaction_result,
        coordinator_epoch=marker_request.coordinator_epoch,
        transaction_version=marker_request.transaction_version,
    )
    return write_marker(writer, topic.name, index, marker, found.topic_id if topic.topic_id != NO_TOPIC_ID else None)


async def _end_through_coordinator(
    services: MarkerServices,
    transactional_id: str,
    transaction: Transaction,
    marker_request: WritableTxnMarker,
    partition: Partition | None,
) -> ErrorCode:
    if transaction.state.preparing:
        # Decided already, and on its way: it ends as it was decided.
        decided_so = (transaction.state is TransactionState.PREPARE_COMMIT) == marker_request.transaction_result
        return ErrorCode.NONE if decided_so else ErrorCode.INVALID_TXN_STATE
    stale = marker_request.producer_epoch < transaction.producer_epoch or (
        # Since KIP-1228 a marker is above the epoch that it ends: an equal one ended the transaction before, and comes
        # a second time.
        marker_request.transaction_version >= 2 and marker_request.producer_epoch == transaction.producer_epoch
    )
    if stale:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if partition is not None:
        if partition.refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return partition.refusal
        known_epoch = partition.derived.producers.coordinator_epoch(marker_request.producer_id)
        if marker_request.coordinator_epoch < known_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    if marker_request.transaction_result:
        return ErrorCode.INVALID_TXN_STATE
    try:
        error = await services.transactions.ask(
            transactional_id,
            lambda machine, ticket, now_ms: machine.abort_by_operator(
                ticket,
                now_ms,
                transactional_id=transactional_id,
                claimed=Producer(marker_request.producer_id, marker_request.producer_epoch),
            ),
        )
    except CoordinatorError:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error is ErrorCode.NONE:
        await services.transactions.wait_until_completed(transactional_id, HOLD_MS / 1000)
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
