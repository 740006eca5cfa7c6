"""Produce (0): record batches into partitions.

A request goes through `_resolve` (which partitions), the gate (which transactions; only where one is not under way in
its partition) and `_append` (one synchronous block), and is answered by `answered`.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Final

from broker.api.catalogue import Deferred, NoAnswer, handles
from broker.api.context import RequestContext
from broker.api.handlers.produce_appends import (
    NO_RECORDS,
    ZSTD_SINCE,
    Commits,
    ProduceServices,
    Write,
    answered,
    append_and_publish,
    refuse_all,
)
from broker.api.permissions.of_records import PRODUCE
from broker.coordination.transaction_gate import Admission, ProduceBatch, admit_produce, admitted_at_once
from broker.partitions.append import must_open
from broker.partitions.errors import AppendError
from broker.partitions.topic_partitions import Partitions
from broker.process.time_slice import TimeSlice
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import HEADER_SIZE, TRANSACTIONAL, read_header

TOPIC_IDS_SINCE: Final = 13
AT_ONCE: Final = 64
"""Topics and partitions of a request that is answered in one go."""
UNKNOWN_LEADER: Final = LeaderIdAndEpoch()
VERIFIED: Final = Admission(verification=False)
"""The coordinator has said yes in this very turn: the append need not ask for a guard."""


@handles(ProduceRequest, ProduceResponse, versions=range(3, 14), advertised_from=0, guard=PRODUCE)
def produce(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred | NoAnswer | Coroutine[Any, Any, ProduceResponse | Deferred | NoAnswer]:
    """Append one batch to each of several partitions; they succeed and fail one by one.

    acks=all is answered when everything is committed (fsynced, in durable mode; in memory a turn of the loop
    later), and no reader sees more than that; acks=1 after the append (in a shared store when it is committed:
    until then it is in memory alone), acks=0 not at all; if an acks=0 request fails, the connection closes.
    Transactional batches go through the transaction gate first. v5 log start offset; v7 zstd; v8 record errors; v9
    flexible; v10 leader hints (KIP-951); v12 partitions are added to the transaction here (KIP-890); v13 topic ids.
    v0 to v2 are listed for librdkafka (KAFKA-18659), and refused as Kafka 4 refuses them. Sequences of a
    transaction that has ended are refused with 48, where Kafka takes the batch for a repetition.

    Not done: `timeout_ms` (a sync ends or the broker does; a store that stands still is waited for, until the client
    gives up), old message formats.
    """
    if services.topics.to_open.any_left:
        return _wait_a_moment_first(services, context, request)
    return _produce(services, context, request)


def _produce(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred | NoAnswer | Coroutine[Any, Any, ProduceResponse | Deferred | NoAnswer]:
    topics = request.topic_data
    if (len(topics) != 1 or len(topics[0].partition_data) >= AT_ONCE) and _has_many(topics):
        return _produce_in_slices(services, context, request)
    writes, answer = _resolve(services, context, request)
    if request.acks not in (-1, 0, 1):
        return refuse_all(request, writes, ErrorCode.INVALID_REQUIRED_ACKS, answer)
    now_ms = services.environment.wall_ms()
    closed: list[Write] = []
    transactional: list[Write] = []
    for write in writes:
        header, partition = write.header, write.partition
        if header is not None and partition is not None:
            if must_open(header, partition.config, now_ms):
                closed.append(write)
            if header.attributes & TRANSACTIONAL:
                transactional.append(write)
    if closed and not _opened_at_once(services, context, closed, now_ms):
        return _open_and_go_on(services, context, request, writes, closed, transactional, answer)
    if transactional:
        return _admit(services, context, request, writes, transactional, answer)
    return _append_and_answer(services, context, request, writes, answer, now_ms)


async def _wait_a_moment_first(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred | NoAnswer:
    """For logs that are still being opened."""
    topics = services.topics
    find = topics.by_id if context.api_version >= TOPIC_IDS_SINCE else topics.by_name
    key = "topic_id" if context.api_version >= TOPIC_IDS_SINCE else "name"
    await topics.to_open.wait_a_moment(
        (find(getattr(topic, key)), data.index) for topic in request.topic_data for data in topic.partition_data
    )
    result = _produce(services, context, request)
    return await result if isinstance(result, Coroutine) else result


def _has_many(topics: Sequence[TopicProduceData]) -> bool:
    """Whether a request is worked on in slices."""
    return sum([1 + len(topic.partition_data) for topic in topics]) > AT_ONCE


def _opened_at_once(services: ProduceServices, context: RequestContext, closed: list[Write], now_ms: int) -> bool:
    """Open a batch that is the only one and small: no coroutine for that."""
    write = closed[0]
    if len(closed) > 1:
        return False
    assert write.partition is not None and write.header is not None
    zstd_allowed = context.api_version >= ZSTD_SINCE
    write.opened = services.batch_opener.open_small(
        write.partition, write.records, write.header, now_ms=now_ms, zstd_allowed=zstd_allowed
    )
    return write.opened is not None


async def _open_and_go_on(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[Write],
    closed: list[Write],
    transactional: list[Write],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer:
    """What is in the batches is heard of after the gate, as in Kafka; it is looked at before, so that nothing waits
    between the gate and the append."""
    slice_, opener = services.environment.time_slice(), services.batch_opener
    open_one = opener.open if len(closed) > 1 else opener.open_large
    for write in closed:
        assert write.partition is not None and write.header is not None
        write.opened = await open_one(
            write.partition,
            write.records,
            write.header,
            now_ms=services.environment.wall_ms(),
            zstd_allowed=context.api_version >= ZSTD_SINCE,
            slice_=slice_,
        )
    result = _admit(services, context, request, writes, transactional, answer)
    return await result if isinstance(result, Coroutine) else result


def _admit(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[Write],
    transactional: list[Write],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer | Coroutine[Any, Any, ProduceResponse | Deferred | NoAnswer]:
    """Through the transaction gate, where there is something for it, then append."""
    if transactional:
        if error := _whole_request_error(request, transactional):
            return refuse_all(request, writes, error, answer)
        _refuse_those_of_another(services, request.transactional_id, transactional)
        batches = _to_be_admitted(transactional)
        if batches and admitted_at_once(
            services, request.transactional_id, context.api_version, [batch for _, batch in batches]
        ):
            for write, batch in batches:
                write.admission = VERIFIED
                _remember(batch)
        elif batches:
            return _admit_and_append(services, context, request, writes, batches, answer)
    return _append_and_answer(services, context, request, writes, answer, services.environment.wall_ms())


def _resolve(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> tuple[list[Write], ProduceResponse]:
    """Find the partitions, and lay out the answer in the order of the request."""
    by_id = context.api_version >= TOPIC_IDS_SINCE
    writes: list[Write] = []
    topics: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        responses: list[PartitionProduceResponse] = []
        _lay_out(services, context, topic, topic.partition_data, by_id, writes, responses)
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=responses))
    return writes, ProduceResponse(responses=topics)


def _lay_out(
    services: ProduceServices,
    context: RequestContext,
    topic: TopicProduceData,
    partitions: Sequence[PartitionProduceData],
    by_id: bool,
    writes: list[Write],
    responses: list[PartitionProduceResponse],
) -> None:
    found, error = _find_topic(services, context, topic, by_id)
    for data in partitions:
        partition = found[data.index] if found is not None and 0 <= data.index < len(found) else None
        code = error if partition is None else ErrorCode.NONE
        response = PartitionProduceResponse(
            index=data.index, error_code=code, base_offset=-1, current_leader=UNKNOWN_LEADER
        )
        responses.append(response)
        records = data.records or NO_RECORDS  # null is as good as none, and refused as such by the partition
        assert isinstance(records, memoryview)
        header = read_header(records) if partition is not None and len(records) >= HEADER_SIZE else None
        writes.append(Write(partition, records, header, response))


async def _produce_in_slices(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred | NoAnswer:
    """A request for many partitions. Others have their turn between two of them: what the gate said is not taken on
    trust at the append, which asks the guard and the partition's own state."""
    time_slice = services.environment.time_slice()
    writes, answer = await _resolve_in_slices(services, context, request, time_slice)
    if request.acks not in (-1, 0, 1):
        return refuse_all(request, writes, ErrorCode.INVALID_REQUIRED_ACKS, answer)
    await _open_in_slices(services, context, writes, time_slice)
    transactional = [write for write in writes if write.header is not None and write.header.attributes & TRANSACTIONAL]
    if transactional and (error := _whole_request_error(request, transactional)):
        return refuse_all(request, writes, error, answer)
    _refuse_those_of_another(services, request.transactional_id, transactional)
    batches: list[tuple[Write, ProduceBatch]] = []
    for begin in range(0, len(transactional), AT_ONCE):
        batches += _to_be_admitted(transactional[begin : begin + AT_ONCE])
        if time_slice.spent():
            await time_slice.wait_for_turn()
    await _ask_the_gate(services, context, request, batches)
    commits = Commits()
    now_ms = services.environment.wall_ms()
    failed = False
    for write in writes:
        failed = not append_and_publish(services, write, context, request, now_ms, commits) or failed
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return answered(services, context, request, writes, commits, answer, failed=failed)


async def _resolve_in_slices(
    services: ProduceServices, context: RequestContext, request: ProduceRequest, time_slice: TimeSlice
) -> tuple[list[Write], ProduceResponse]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    writes: list[Write] = []
    topics: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        responses: list[PartitionProduceResponse] = []
        for begin in range(0, max(len(topic.partition_data), 1), AT_ONCE):
            part = topic.partition_data[begin : begin + AT_ONCE]
            _lay_out(services, context, topic, part, by_id, writes, responses)
            if time_slice.spent():
                await time_slice.wait_for_turn()
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=responses))
    return writes, ProduceResponse(responses=topics)


async def _open_in_slices(
    services: ProduceServices, context: RequestContext, writes: list[Write], time_slice: TimeSlice
) -> None:
    """As `_open_and_go_on`, where it has to be found out of many batches whether they must be opened."""
    opener = services.batch_opener
    for write in writes:
        now_ms, header, partition = services.environment.wall_ms(), write.header, write.partition
        if header is not None and partition is not None and must_open(header, partition.config, now_ms):
            write.opened = await opener.open(
                partition,
                write.records,
                header,
                now_ms=now_ms,
                zstd_allowed=context.api_version >= ZSTD_SINCE,
                slice_=time_slice,
            )
        elif time_slice.spent():
            await time_slice.wait_for_turn()


def _find_topic(
    services: ProduceServices, context: RequestContext, requested: TopicProduceData, by_id: bool
) -> tuple[Partitions | None, ErrorCode]:
    topic = services.topics.by_id(requested.topic_id) if by_id else services.topics.by_name(requested.name)
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.internal:  # for clients named __admin_client, too: decision 0015
        return None, ErrorCode.INVALID_TOPIC_EXCEPTION
    return topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _whole_request_error(request: ProduceRequest, transactional: list[Write]) -> ErrorCode:
    """What refuses the whole request: no transactional id, or batches of more than one producer."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if len(transactional) > 1 and len({_producer_of(write) for write in transactional}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE


def _refuse_those_of_another(
    services: ProduceServices, transactional_id: str | None, transactional: list[Write]
) -> None:
    """Where clients are told apart: batches whose producer is not that of the id that they come under.

    Kafka asks whose a producer is with its first batch in a partition alone: who may write there, under an id of its
    own, goes on with the transaction of somebody else whose producer id it guesses, and the next record of that one is
    taken for a repeat.
    """
    if services.authorizer is None or transactional_id is None:
        return
    if not services.transactions.led(services.transactions.partition_for(transactional_id)):
        return  # Its coordinator is in another node, and asked with the first batch in a partition, as in Kafka.
    own = services.transactions.whose(transactional_id)
    if own is not None and _producer_of(transactional[0])[0] in own:
        return
    # As a producer is told where the gate cannot ask.
    error = ErrorCode.NOT_ENOUGH_REPLICAS if own is None else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for write in transactional:
        write.admission = Admission(error=error)


def _producer_of(write: Write) -> tuple[int, int]:
    assert write.header is not None
    return write.header.producer_id, write.header.producer_epoch


def _to_be_admitted(transactional: list[Write]) -> list[tuple[Write, ProduceBatch]]:
    """The batches whose transaction is not under way in their partition yet. Damaged ones fail at the append."""
    found: list[tuple[Write, ProduceBatch]] = []
    for write in transactional:
        assert write.partition is not None
        if write.admission is not None:
            continue  # refused already
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
    writes: list[Write],
    batches: list[tuple[Write, ProduceBatch]],
    answer: ProduceResponse,
) -> ProduceResponse | Deferred | NoAnswer:
    """Ask the gate, then append without another await: a request may mix transactional and other partitions."""
    await _ask_the_gate(services, context, request, batches)
    return _append_and_answer(services, context, request, writes, answer, services.environment.wall_ms())


async def _ask_the_gate(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    batches: list[tuple[Write, ProduceBatch]],
) -> None:
    if not batches:
        return
    admissions = await admit_produce(
        services, request.transactional_id, context.api_version, [batch for _, batch in batches]
    )
    for (write, _), admission in zip(batches, admissions, strict=True):
        write.admission = admission


def _append_and_answer(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    writes: list[Write],
    answer: ProduceResponse,
    now_ms: int,
) -> ProduceResponse | Deferred | NoAnswer:
    commits = Commits()
    failed = False
    for write in writes:
        failed = not append_and_publish(services, write, context, request, now_ms, commits) or failed
    return answered(services, context, request, writes, commits, answer, failed=failed)


def _remember(batch: ProduceBatch) -> None:
    """As if the coordinator had been asked: if the log refuses this batch, later ones may not overtake it
    (KAFKA-14920)."""
    header = batch.header
    assert header is not None
    try:
        batch.partition.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, supports_epoch_bump=False
        )
    except AppendError:
        return  # of a fenced epoch, as the append will say
