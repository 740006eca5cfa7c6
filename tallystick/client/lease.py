"""A transaction that is not bound to one process: a lease on a transactional id, and what may be done with it.

A lease is (transactional id, producer id, epoch). Its holder may write and end the transaction from any
connection; Kafka ties neither to the other. It can be pickled and handed on.

Rule 1. Conditions that pass by themselves and lost connections are waited for, up to a patience; every request here
        may be repeated without harm. NOT_ENOUGH_REPLICAS is one of them: a leader could not verify the transaction yet.
Rule 2. Every other error code becomes one of three: `Fenced` (there is a later lease), `TransactionGone`
        (the transaction was aborted: nothing of it is seen), `KafkaError` (a matter of settings or rights).
Rule 3. Never end a transaction in which nothing was written: brokers refuse that.
Rule 4. Under the old rules (transaction.version 0 and 1) an epoch outlives its transaction; take a lease for each.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.messages.produce import ProduceRequest
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from protocol.schema import schema_of
from tallystick.client.client import GROUP, TRANSACTION, Client
from tallystick.client.connection import Connection
from tallystick.client.errors import PASSING, ConnectionLost, Fenced, KafkaError, TransactionGone, UnsupportedByBroker

T = TypeVar("T")
Partition = tuple[str, int]

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5
_PASSING = PASSING | {
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
"""A lease outlives more: every request here may be repeated without harm."""
_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
_GONE = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)


class NotYet(Exception):
    """Raised by an attempt that met a condition which passes by itself."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    implicit: bool
    """Whether partitions join by being written to (transaction.version 2, KIP-890)."""


def judge(code: int, message: str | None = None) -> None:
    """Raise what an error code means, by rule 2; `NotYet` for what passes."""
    if code == ErrorCode.NONE:
        return
    if code in _PASSING:
        raise NotYet(KafkaError(code, message))
    if code in _FENCED:
        raise Fenced(code, message)
    if code in _GONE:
        raise TransactionGone(code, message)
    raise KafkaError(code, message)


async def persistently(client: Client, attempt: Callable[[], Coroutine[Any, Any, T]], *, patience_s: float) -> T:
    """Repeat while it fails with something that passes, and patience lasts; then raise that."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await client.in_time(attempt())
        except NotYet as passing:
            last: Exception = passing.error
        except KafkaError as error:
            if error.code not in _PASSING or error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise  # A topic that a look-up has not found, in its own patience, is not there.
            last = error
        except (ConnectionLost, OSError) as error:
            last = error
        client.forget()
        if loop.time() + pause_s > deadline:
            raise last
        client.retries += 1
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _implicit(connection: Connection) -> bool:
    """KIP-890 is in force if the cluster has finalised it and the versions that go with it are there."""
    if connection.features.get("transaction.version", 0) < 2:
        return False
    produce, end = (
        connection.versions.get(schema_of(api).api_key, range(0)) for api in (ProduceRequest, EndTxnRequest)
    )
    return 12 in produce and 5 in end


async def _coordinator(client: Client, key: str, key_type: int) -> Connection:
    try:
        return await client.coordinator(key, key_type)
    except KafkaError as error:
        judge(error.code, str(error))
        raise


async def take_lease(client: Client, transactional_id: str, *, timeout_ms: int, patience_s: float) -> Lease:
    """Fence the earlier holder of the id, settle what was left open, and take the lease.

    When this returns, every earlier transaction of the id is committed or aborted for good, markers and all.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    async def attempt() -> Lease:
        node = await client.any_node()
        for api in (InitProducerIdRequest, EndTxnRequest):
            if not node.versions.get(schema_of(api).api_key):
                raise UnsupportedByBroker(f"the broker does not list {schema_of(api).name}: it has no transactions")
        connection = await _coordinator(client, transactional_id, TRANSACTION)
        answer = await connection.ask(request)
        # PRODUCER_FENCED here means that another request came at the same moment, after this one.
        judge(answer.error_code)
        return Lease(transactional_id, answer.producer_id, answer.producer_epoch, _implicit(connection))

    return await persistently(client, attempt, patience_s=patience_s)


async def add_partitions(client: Client, lease: Lease, partitions: Iterable[Partition], *, patience_s: float) -> None:
    """Tell the coordinator what is going to be written to. Only where that is not implicit."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=lease.transactional_id,
        v3_and_below_producer_id=lease.producer_id,
        v3_and_below_producer_epoch=lease.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=p) for name, p in by_topic.items()],
    )

    async def attempt() -> None:
        connection = await _coordinator(client, lease.transactional_id, TRANSACTION)
        answer = await connection.ask(request, min(3, connection.version_for(AddPartitionsToTxnRequest)))
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                judge(result.partition_error_code, f"{topic.name}-{result.partition_index}")

    await persistently(client, attempt, patience_s=patience_s)


async def commit_offsets(
    client: Client, lease: Lease, group: str, offsets: Mapping[Partition, int], *, patience_s: float
) -> None:
    """Make offsets of a group part of the transaction: they are committed if and when it is."""
    if not lease.implicit:
        await persistently(client, lambda: _add_offsets(client, lease, group), patience_s=patience_s)

    async def attempt() -> None:
        connection = await _coordinator(client, group, GROUP)
        highest = connection.version_for(TxnOffsetCommitRequest)
        version = highest if lease.implicit else min(4, highest)
        request = await _offset_commit(client, lease, group, offsets, with_ids=version >= 6)
        answer: TxnOffsetCommitResponse = await connection.ask(request, version)
        for topic in answer.topics:
            for result in topic.partitions:
                judge(result.error_code, f"{topic.name}-{result.partition_index}")

    await persistently(client, attempt, patience_s=patience_s)


async def _add_offsets(client: Client, lease: Lease, group: str) -> None:
    connection = await _coordinator(client, lease.transactional_id, TRANSACTION)
    answer = await connection.ask(
        AddOffsetsToTxnRequest(
            transactional_id=lease.transactional_id,
            producer_id=lease.producer_id,
            producer_epoch=lease.producer_epoch,
            group_id=group,
        ),
        min(3, connection.version_for(AddOffsetsToTxnRequest)),
    )
    judge(answer.error_code)


async def _offset_commit(
    client: Client, lease: Lease, group: str, offsets: Mapping[Partition, int], *, with_ids: bool
) -> TxnOffsetCommitRequest:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        by_topic.setdefault(topic, []).append(committed)
    topics = []
    for name, partitions in by_topic.items():
        topic_id = (await client.topic(name)).topic_id if with_ids else bytes(16)
        topics.append(TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions))
    return TxnOffsetCommitRequest(
        transactional_id=lease.transactional_id,
        group_id=group,
        producer_id=lease.producer_id,
        producer_epoch=lease.producer_epoch,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=topics,
    )


async def end_transaction(client: Client, lease: Lease, *, commit: bool, patience_s: float) -> None:
    """Decide the transaction. Returns when it is decided as requested, also if an earlier, unanswered try did it.

    `TransactionGone` from a commit: it was aborted. `Fenced`, a lost connection, or a code that did not pass in time:
    unknown; the next lease settles it, and then the visible records show it.
    """
    request = EndTxnRequest(
        transactional_id=lease.transactional_id,
        producer_id=lease.producer_id,
        producer_epoch=lease.producer_epoch,
        committed=commit,
    )

    async def attempt() -> Any:
        connection = await _coordinator(client, lease.transactional_id, TRANSACTION)
        highest = connection.version_for(EndTxnRequest)
        answer = await connection.ask(request, highest if lease.implicit else min(4, highest))
        judge(answer.error_code)

    await persistently(client, attempt, patience_s=patience_s)
