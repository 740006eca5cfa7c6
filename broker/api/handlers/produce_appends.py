"""Produce (0), its second half: one append for each partition, and the answer when what has to be committed is."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred, NoAnswer
from broker.api.context import RequestContext
from broker.api.noted.requests import note_batch
from broker.api.permissions.need import WithAuthorizer
from broker.api.services import WithEnvironment, WithNodes
from broker.coordination.transaction_gate import Admission, GateServices
from broker.journal.journal import Journal
from broker.partitions.append import CheckedBatch
from broker.partitions.committing import Committing
from broker.partitions.errors import AppendError, PartitionError
from broker.partitions.opening import BatchOpener
from broker.partitions.partition import Partition
from coordinator.cluster.leaders import NOBODY
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from protocol.records.batch import BatchHeader
from storage.log import StorageFailed

ZSTD_SINCE: Final = 7
NO_RECORDS: Final = memoryview(b"")
NOT_IN_TRANSACTION: Final = "The partition is not in the producer's open transaction."
"""Clients before Produce 11 do not know TRANSACTION_ABORTABLE; the message is for the client's log."""
MANY_PRODUCERS = "The request holds transactional batches of more than one producer."


class ProduceServices(GateServices, WithAuthorizer, WithEnvironment, WithNodes, Protocol):
    """What these handlers use of the node."""

    @property
    def group_commit(self) -> Committing: ...

    @property
    def batch_opener(self) -> BatchOpener: ...

    @property
    def journal(self) -> Journal | None: ...

    @property
    def fail(self) -> Callable[[BaseException], None]: ...


class Write:
    """One partition of the request and its part of the answer. `header` is that of the records; None where they are too
    short for one, or nobody takes them."""

    __slots__ = ("admission", "header", "opened", "partition", "records", "response")

    def __init__(
        self,
        partition: Partition | None,
        records: memoryview,
        header: BatchHeader | None,
        response: PartitionProduceResponse,
    ) -> None:
        self.partition = partition
        self.records = records
        self.header = header
        self.response = response
        self.admission: Admission | None = None
        self.opened: CheckedBatch | AppendError | None = None


class Commits:
    """The appends of one request that are not committed yet."""

    __slots__ = ("_answer", "_done", "missing")

    def __init__(self) -> None:
        self.missing = 0
        self._answer: ProduceResponse | None = None
        self._done: asyncio.Future[ProduceResponse] | None = None

    def settle_one(self, response: PartitionProduceResponse, error: Exception | None) -> None:
        """One append is committed, or never will be."""
        if error is not None:
            code = error.code if isinstance(error, PartitionError) else ErrorCode.KAFKA_STORAGE_ERROR
            response.error_code = code
            response.base_offset = -1
        self.missing -= 1
        if not self.missing and self._done is not None and self._answer is not None and not self._done.done():
            self._done.set_result(self._answer)

    def when_none_is_missing(self, answer: ProduceResponse) -> "asyncio.Future[ProduceResponse]":
        """A future of the answer; no more appends follow."""
        self._answer = answer
        self._done = asyncio.get_running_loop().create_future()
        return self._done


def append_and_publish(
    services: ProduceServices,
    write: Write,
    context: RequestContext,
    request: ProduceRequest,
    now_ms: int,
    commits: Commits,
) -> bool:
    """Append to one partition; whether that went well. What the answer has to wait for is added to `commits`."""
    next_offset = _append(services, write, context, request, now_ms)
    journal, header, partition = services.journal, write.header, write.partition
    if journal is not None and header is not None and partition is not None:
        response, place = write.response, (partition.topic, partition.index)
        note_batch(
            journal,
            context,
            request.transactional_id,
            place,
            header,
            response.base_offset,
            response.error_code,
            now_ms,
        )
    if next_offset < 0:
        if partition is not None and write.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, epoch = services.nodes.leader(partition.topic_id, partition.index)
            if leader != services.nodes.node_id:  # else there is nobody else to go to
                write.response.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        return False
    if write.partition is not None:
        services.group_commit.publish(write.partition)  # whatever acks is: no request waits for the sync of another log
        waits = request.acks == -1 or (request.acks == 1 and not services.group_commit.appends_stay)
        if waits and write.partition.high_watermark < next_offset:
            commits.missing += 1
            write.partition.when_committed(next_offset, partial(commits.settle_one, write.response))
    return True


def answered(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[Write],
    commits: Commits,
    answer: ProduceResponse,
    *,
    failed: bool,
) -> ProduceResponse | Deferred | NoAnswer:
    if request.acks == 0:
        if failed:
            raise CloseConnection(f"a Produce with acks=0 failed: {_codes(writes)}")
        return NO_ANSWER
    if failed:
        answer.node_endpoints = _endpoints(services, context, writes)
    return Deferred(commits.when_none_is_missing(answer)) if commits.missing else answer


def _endpoints(services: ProduceServices, context: RequestContext, writes: list[Write]) -> list[NodeEndpoint]:
    """KIP-951: those of leaders that clients are pointed to."""
    named = {write.response.current_leader.leader_id for write in writes}
    if named == {NOBODY}:
        return []
    return [
        NodeEndpoint(node_id=node.node_id, host=node.endpoint.host, port=node.endpoint.port, rack=node.rack)
        for node in services.nodes.reached(context.connection.listener)
        if node.node_id in named
    ]


def _append(
    services: ProduceServices, write: Write, context: RequestContext, request: ProduceRequest, now_ms: int
) -> int:
    """Append to one partition and fill in its answer; the offset to wait for, or -1 where it failed."""
    partition, response, admission = write.partition, write.response, write.admission
    if partition is None:
        return -1
    if admission is not None and admission.error:
        response.error_code = admission.error
        if admission.error is ErrorCode.INVALID_TXN_STATE:
            response.error_message = NOT_IN_TRANSACTION
        return -1
    try:
        if isinstance(write.opened, AppendError):
            raise write.opened
        appended = partition.append(
            write.records,
            transactional_id=request.transactional_id,
            guard=None if admission is None else admission.guard,
            verification=admission is None or admission.verification,
            now_ms=now_ms,
            zstd_allowed=context.api_version >= ZSTD_SINCE,
            header=write.header,
            opened=write.opened,
        )
    except AppendError as refused:
        response.error_code = refused.code
        response.error_message = refused.message
        response.log_start_offset = refused.log_start_offset
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in refused.record_errors
        ]
        return -1
    except StorageFailed as failure:
        services.fail(failure)  # the broker ends, but not before this answer is out
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return -1
    write.records = NO_RECORDS  # the buffer may be used again while the answer waits
    response.base_offset = appended.base_offset
    response.log_append_time_ms = appended.log_append_time_ms
    response.log_start_offset = appended.log_start_offset
    return appended.next_offset


def refuse_all(
    request: ProduceRequest, writes: list[Write], error: ErrorCode, answer: ProduceResponse
) -> ProduceResponse:
    for write in writes:
        write.response.error_code = error
        if error is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            write.response.error_message = MANY_PRODUCERS
    if request.acks == 0:
        raise CloseConnection(f"a Produce with acks=0 failed: {_codes(writes)}")
    return answer


def _codes(writes: list[Write]) -> str:
    codes = {write.response.error_code for write in writes}
    return ", ".join(sorted(ErrorCode(code).name for code in codes if code))
