"""Produce: record batches into partitions."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred, NoAnswer, handles
from broker.api.context import RequestContext
from broker.api.services import WithEnvironment
from broker.coordination.transaction_gate import Admission, GateServices, ProduceBatch, admit_produce, admitted_at_once
from broker.disk.group_commit import GroupCommit
from broker.partitions.append import CheckedBatch
from broker.partitions.errors import AppendError, PartitionError
from broker.partitions.opening import BatchOpener
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import HEADER_SIZE, read_header
from storage.log import StorageFailed

TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
ADMIN_CLIENT = "__admin_client"
"""The only client id that may write to internal topics, as in Kafka."""
_TRANSACTIONAL = 0x10
_NOTHING = memoryview(b"")
VERIFIED = Admission(verification=False)
"""The coordinator has said yes in this very turn: the append need not ask for a guard."""


NOT_IN_TRANSACTION = "The partition is not in the producer's open transaction."
"""Clients before Produce 11 do not know TRANSACTION_ABORTABLE; the words are for whoever reads their log."""
MANY_PRODUCERS = "The request holds transactional batches of more than one producer."


class ProduceServices(GateServices, WithEnvironment, Protocol):
    """What these handlers use of the node."""

    @property
    def group_commit(self) -> GroupCommit: ...

    @property
    def batch_opener(self) -> BatchOpener: ...

    @property
    def fail(self) -> Callable[[BaseException], None]: ...


@dataclass(slots=True)
class _Write:
    """One partition of the request and its part of the answer."""

    partition: Partition | None
    records: memoryview
    told: PartitionProduceResponse
    admission: Admission | None = None
    opened: CheckedBatch | AppendError | None = None


@handles(ProduceRequest, ProduceResponse, versions=range(3, 14), advertised_from=0)
def produce(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred | NoAnswer | Coroutine[Any, Any, ProduceResponse | Deferred | NoAnswer]:
    """Append one batch to each of several partitions; they succeed and fail one by one.

    acks=all is answered when everything is committed (fsynced, in durable mode), acks=1 after the append, acks=0
    not at all; if an acks=0 request fails, the connection closes. Transactional batches go through the transaction
    gate first. v5 log start offset; v7 zstd; v8 record errors; v9 flexible; v10 leader hints (there is one leader:
    never sent); v12 partitions are added to the transaction here (KIP-890); v13 topic ids. v0 to v2 are listed for
    librdkafka (KAFKA-18659), and refused as Kafka 4 refuses them.

    Not done: `timeout_ms` (a sync ends or the broker does), old message formats.
    """
    writes, answer = _resolve(services, context, request)
    if request.acks not in (-1, 0, 1):
        return _refuse_all(request, writes, ErrorCode.INVALID_REQUIRED_ACKS, answer)
    opener, now_ms = services.batch_opener, services.environment.wall_ms()
    closed = [
        write for write in writes
        if write.partition is not None and opener.must_open(write.partition, write.records, now_ms)
    ]  # fmt: skip
    if closed:
        return _open_and_go_on(services, context, request, writes, closed, answer)
    return _admit(services, context, request, writes, answer)


async def _open_and_go_on(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[_Write],
    closed: list[_Write],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer:
    """What is in the batches is heard of after the gate, as in Kafka; it is looked at before, so that nothing waits
    between the gate and the append."""
    slice_ = services.environment.time_slice()
    for write in closed:
        assert write.partition is not None
        write.opened = await services.batch_opener.open(
            write.partition,
            write.records,
            now_ms=services.environment.wall_ms(),
            zstd_allowed=context.api_version >= ZSTD_SINCE,
            slice_=slice_,
        )
    result = _admit(services, context, request, writes, answer)
    return await result if isinstance(result, Coroutine) else result


def _admit(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[_Write],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer | Coroutine[Any, Any, ProduceResponse | Deferred | NoAnswer]:
    """Through the transaction gate, where there is something for it, then append."""
    transactional = [write for write in writes if write.partition is not None and _is_transactional(write.records)]
    if transactional:
        if error := _whole_request_error(request, transactional):
            return _refuse_all(request, writes, error, answer)
        batches = _to_be_admitted(transactional)
        if batches and admitted_at_once(
            services, request.transactional_id, context.api_version, [batch for _, batch in batches]
        ):
            for write, batch in batches:
                write.admission = VERIFIED
                _remember(batch)
        elif batches:
            return _admit_and_append(services, context, request, writes, batches, answer)
    return _append_and_answer(services, context, request, writes, answer)


def _resolve(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> tuple[list[_Write], ProduceResponse]:
    """Find the partitions, and lay out the answer in the order of the request."""
    by_id = context.api_version >= TOPIC_IDS_SINCE
    writes: list[_Write] = []
    topics: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        told: list[PartitionProduceResponse] = []
        found, error = _find_topic(services, context, topic, by_id)
        for asked in topic.partition_data:
            partition = None
            if found is not None:
                partition = found[asked.index] if 0 <= asked.index < len(found) else None
            code = error if partition is None else ErrorCode.NONE
            told.append(PartitionProduceResponse(index=asked.index, error_code=code, base_offset=-1))
            writes.append(_Write(partition, _records_of(asked), told[-1]))
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=told))
    return writes, ProduceResponse(responses=topics)


def _find_topic(
    services: ProduceServices, context: RequestContext, asked: TopicProduceData, by_id: bool
) -> tuple[Sequence[Partition] | None, ErrorCode]:
    topic = services.topics.by_id(asked.topic_id) if by_id else services.topics.by_name(asked.name)
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.internal and context.client_id != ADMIN_CLIENT:
        return None, ErrorCode.INVALID_TOPIC_EXCEPTION
    return topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _records_of(asked: PartitionProduceData) -> memoryview:
    """The bytes of the batch; null is as good as none, and refused as such by the partition."""
    records = asked.records
    if records is None:
        return memoryview(b"")
    assert isinstance(records, memoryview)
    return records


def _is_transactional(records: memoryview) -> bool:
    return len(records) >= HEADER_SIZE and bool(records[22] & _TRANSACTIONAL)


def _whole_request_error(request: ProduceRequest, transactional: list[_Write]) -> ErrorCode:
    """What refuses the whole request: no transactional id, or batches of more than one producer."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if len(transactional) > 1 and len({_producer_of(write.records) for write in transactional}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE


def _producer_of(records: memoryview) -> tuple[int, int]:
    header = read_header(records)
    return header.producer_id, header.producer_epoch


def _to_be_admitted(transactional: list[_Write]) -> list[tuple[_Write, ProduceBatch]]:
    """The batches whose transaction is not under way in their partition yet. Damaged ones fail at the append."""
    found: list[tuple[_Write, ProduceBatch]] = []
    for write in transactional:
        assert write.partition is not None
        try:
            header = write.partition.needs_verification(write.records)
        except AppendError:
            continue
        if header is not None:
            found.append((write, ProduceBatch(write.partition, write.records, header)))
    return found


async def _admit_and_append(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[_Write],
    batches: list[tuple[_Write, ProduceBatch]],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer:
    """Ask the gate, then append without another await: a request may mix transactional and other partitions."""
    assert request.transactional_id is not None
    admissions = await admit_produce(
        services, request.transactional_id, context.api_version, [batch for _, batch in batches]
    )
    for (write, _), admission in zip(batches, admissions, strict=True):
        write.admission = admission
    return _append_and_answer(services, context, request, writes, answer)


def _append_and_answer(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[_Write],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer:
    waits: list[tuple[_Write, asyncio.Future[None]]] = []
    now_ms = services.environment.wall_ms()
    failed = False
    for write in writes:
        next_offset = _append(services, write, context, request, now_ms)
        failed = failed or next_offset < 0
        if next_offset >= 0 and request.acks == -1 and write.partition is not None:
            services.group_commit.publish(write.partition)
            wait = write.partition.committed(next_offset)
            if wait is not None:
                waits.append((write, wait))
    if request.acks == 0:
        if failed:
            raise CloseConnection(f"a Produce with acks=0 failed: {_codes(writes)}")
        return NO_ANSWER
    return Deferred(_when_committed(waits, answer)) if waits else answer


def _append(
    services: ProduceServices, write: _Write, context: RequestContext, request: ProduceRequest, now_ms: int
) -> int:
    """Append to one partition and fill in its answer; the offset to wait for, or -1 where it failed."""
    partition, told, admission = write.partition, write.told, write.admission
    if partition is None:
        return -1
    if admission is not None and admission.error:
        told.error_code = admission.error
        if admission.error is ErrorCode.INVALID_TXN_STATE:
            told.error_message = NOT_IN_TRANSACTION
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
            opened=write.opened,
        )
    except AppendError as refused:
        told.error_code = refused.code
        told.error_message = refused.message
        told.log_start_offset = refused.log_start_offset
        told.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in refused.record_errors
        ]
        return -1
    except StorageFailed as failure:
        services.fail(failure)  # the broker ends, but not before this answer is out
        told.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return -1
    write.records = _NOTHING  # the buffer may be used again while the answer waits
    told.base_offset = appended.base_offset
    told.log_append_time_ms = appended.log_append_time_ms
    told.log_start_offset = appended.log_start_offset
    return appended.next_offset


def _remember(batch: ProduceBatch) -> None:
    """As if the coordinator had been asked: if the log refuses this batch, later ones may not overtake it
    (KAFKA-14920)."""
    header = batch.header
    assert header is not None
    with contextlib.suppress(AppendError):  # of a fenced epoch, as the append will say
        batch.partition.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, supports_epoch_bump=False
        )


def _when_committed(
    waits: Sequence[tuple[_Write, "asyncio.Future[None]"]], answer: ProduceResponse
) -> "asyncio.Future[ProduceResponse]":
    """A future of the answer, done when the last partition is committed."""
    done: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
    missing = len(waits)

    def committed(write: _Write, wait: "asyncio.Future[None]") -> None:
        nonlocal missing
        if not wait.cancelled() and (error := wait.exception()) is not None:
            write.told.error_code = error.code if isinstance(error, PartitionError) else ErrorCode.KAFKA_STORAGE_ERROR
            write.told.base_offset = -1
        missing -= 1
        if not missing and not done.done():
            done.set_result(answer)

    for write, wait in waits:
        wait.add_done_callback(lambda wait, write=write: committed(write, wait))  # type: ignore[misc]
    return done


def _refuse_all(
    request: ProduceRequest, writes: list[_Write], error: ErrorCode, answer: ProduceResponse
) -> ProduceResponse:
    for write in writes:
        write.told.error_code = error
        if error is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            write.told.error_message = MANY_PRODUCERS
    if request.acks == 0:
        raise CloseConnection(f"a Produce with acks=0 failed: {_codes(writes)}")
    return answer


def _codes(writes: list[_Write]) -> str:
    return ", ".join(sorted({ErrorCode(write.told.error_code).name for write in writes if write.told.error_code}))
