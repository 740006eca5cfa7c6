"""Produce through a whole node on a disk that takes its time: when it is answered, and what it refuses as a whole."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.handlers.produce import AT_ONCE
from broker.node import Node
from broker.partitions.errors import PartitionError
from broker.partitions.opening import LARGE_AT_ONCE
from protocol.errors import ErrorCode
from protocol.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import HEADER, read_header, seal
from protocol.records.compression import ZSTD
from protocol.records.record import NewRecord, build_batch
from storage.log import StorageFailed
from storage.segment_log import SegmentLog
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_restarts import append, life, opened

PRODUCE = 0


class HeldSyncs:
    """What may block is kept until the test lets it go."""

    def __init__(self, node: Node) -> None:
        self._environment: Any = node.environment
        self._at_once = self._environment.run_blocking
        self._kept: list[tuple[Any, asyncio.Future[Any]]] = []
        self._environment.run_blocking = self._keep

    def _keep(self, work: Any) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._kept.append((work, done))
        return done

    def let_go(self) -> None:
        self._environment.run_blocking = self._at_once
        for work, done in self._kept:
            done.set_result(work())
        self._kept.clear()


def batch(producer_id: int = -1, *, transactional: bool = False) -> memoryview:
    epoch = sequence = -1 if producer_id < 0 else 0
    return memoryview(
        build_batch(
            [NewRecord(value=b"v", timestamp_ms=1)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def produce(
    node: Node,
    *batches: memoryview,
    topic: str = "t",
    acks: int = -1,
    transactional_id: Any = None,
    client_id: str = "client",
) -> Any:
    """The answer of the handler, or what it is waiting for."""
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    context = RequestContext(ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1), PRODUCE, 9, 1, client_id)
    return node.catalogue[PRODUCE].handler(node.services, context, request)


async def finished(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


def errors_of(answer: Any) -> list[int]:
    return [responses.error_code for topic in answer.responses for responses in topic.partition_responses]


def test_acks_all_waits_for_durability_and_acks_1_does_not() -> None:
    async def story(node: Node) -> None:
        partition = await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        assert errors_of(produce(node, batch(), acks=1)) == [ErrorCode.NONE]
        durable = produce(node, batch())
        assert isinstance(durable, Deferred)
        for _ in range(10):
            await asyncio.sleep(0)
        assert isinstance(durable.answer, asyncio.Future) and not durable.answer.done()
        assert (partition.end_offset, partition.high_watermark) == (2, 0)
        disk.let_go()
        assert errors_of(await durable.answer) == [ErrorCode.NONE]
        assert partition.high_watermark == 2

    life(SimulatedFiles(), story)


@pytest.mark.parametrize("count", [3, AT_ONCE + 1])
def test_acks_0_is_never_answered_and_a_failure_closes_the_connection(count: int) -> None:
    """Wherever it is in the request, and however many partitions that has."""

    async def story(node: Node) -> None:
        partition = await opened(node)
        good = [batch() for _ in range(count)]
        assert await finished(produce(node, *good, acks=0)) is NO_ANSWER
        for at in (0, count // 2, count - 1):
            with pytest.raises(CloseConnection, match=r"a Produce with acks=0 failed: INVALID_RECORD$"):
                await finished(produce(node, *good[:at], memoryview(bytes(10)), *good[at + 1 :], acks=0))
        for refused in (2, -2):
            answer = await finished(produce(node, *good, acks=refused))
            assert errors_of(answer) == [ErrorCode.INVALID_REQUIRED_ACKS] * count
        assert partition.end_offset == 3, "one in the first, two beside failures"

    life(SimulatedFiles(), story, num_partitions=str(count))


@pytest.mark.parametrize(
    ("counts", "many"),
    [([AT_ONCE - 1], False), ([AT_ONCE], True), ([30, AT_ONCE - 32], False), ([30, AT_ONCE - 31], True)],
)
def test_only_a_produce_that_names_many_takes_turns(counts: list[int], many: bool) -> None:
    """Topics count, too."""

    async def story(node: Node) -> None:
        await opened(node)
        records = batch()
        topics = [
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)] * count)
            for count in counts
        ]
        request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1, topic_data=topics)
        context = RequestContext(ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1), PRODUCE, 9, 1, "client")
        answer = node.catalogue[PRODUCE].handler(node.services, context, request)
        assert isinstance(answer, Awaitable) == many
        assert errors_of(await finished(answer)) == [ErrorCode.NONE] * sum(counts)

    life(SimulatedFiles(), story)


def test_page_cache_readers_do_not_wait_for_other_logs_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Node) -> None:
        partition, other = await opened(node), await opened(node, "other")
        await node.group_commit.wait_until_idle()
        wanted = property(lambda log: log is other.log)
        monkeypatch.setattr(SegmentLog, "checkpoint_wanted", wanted)
        disk = HeldSyncs(node)
        append(other, b"v")
        node.group_commit.wrote(other)
        for _ in range(3):
            await asyncio.sleep(0)
        assert other.log.is_flushing
        assert errors_of(produce(node, batch(), acks=1)) == [ErrorCode.NONE]
        assert partition.high_watermark == 1
        disk.let_go()

    life(SimulatedFiles(), story, tallystick_durability="page-cache")


def test_a_repeat_is_acknowledged_when_it_is_durable() -> None:
    """The first is still on its way to the disk: a power cut would take both."""

    async def story(node: Node) -> None:
        await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        first, again = produce(node, batch(7)), produce(node, batch(7))
        assert isinstance(first, Deferred) and isinstance(again, Deferred)
        for _ in range(10):
            await asyncio.sleep(0)
        assert isinstance(again.answer, asyncio.Future) and not again.answer.done()
        disk.let_go()
        (repeated,) = (await again.answer).responses[0].partition_responses
        assert (repeated.error_code, repeated.base_offset) == (ErrorCode.NONE, 0)

    life(SimulatedFiles(), story)


def test_acks_all_waits_for_the_last_partition() -> None:
    """One becomes durable, one is deleted meanwhile, one cannot be written: each gets its own code."""

    async def story(node: Node) -> None:
        await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        answer = produce(node, batch(), batch(), batch())
        assert isinstance(answer, Deferred) and isinstance(answer.answer, asyncio.Future)
        topic = node.services.topics.by_name("t")
        assert topic is not None
        topic.partitions[1].fail(PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-1 is gone"))
        topic.partitions[2].fail(StorageFailed("no space"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not answer.answer.done()
        disk.let_go()
        responses = (await answer.answer).responses[0].partition_responses
        assert [(one.error_code, one.base_offset) for one in responses] == [
            (ErrorCode.NONE, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        ]  # fmt: skip

    life(SimulatedFiles(), story, num_partitions="3")


def test_nobody_writes_to_our_own_topics() -> None:
    """Not even with the client id of Kafka's own admin client: what coordinators load is theirs alone."""

    async def story(node: Node) -> None:
        for name in sorted(INTERNAL_TOPICS):
            topic = await node.services.topics.ensure_internal(name)
            end_offset = sum(partition.end_offset for partition in topic.partitions)
            for client_id in ("client", "__admin_client"):
                answer = produce(node, batch(), topic=name, client_id=client_id)
                assert errors_of(answer) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
            assert end_offset == sum(partition.end_offset for partition in topic.partitions)
        metadata = node.services.cluster.shard.log.end_offset
        answer = produce(node, batch(), topic=CLUSTER_METADATA, client_id="__admin_client")
        assert errors_of(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert node.services.cluster.shard.log.end_offset == metadata

    life(SimulatedFiles(), story)


def test_the_transactional_batches_of_a_request_are_of_one_producer() -> None:
    """One request, one verification: a second producer would slip in with the first."""

    async def story(node: Node) -> None:
        await opened(node)
        two = (batch(1, transactional=True), batch(2, transactional=True))
        refused = produce(node, *two, transactional_id="tx")
        assert errors_of(refused) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    life(SimulatedFiles(), story, num_partitions="2")


@pytest.mark.parametrize("damaged_at", [0, 1])
def test_a_damaged_transactional_batch_is_refused_for_itself(damaged_at: int) -> None:
    """The gate is asked about the other alone, and has no transaction for it."""

    async def story(node: Node) -> None:
        await opened(node)
        whole = batch(1, transactional=True)
        batches = [whole[:-1] if index == damaged_at else whole for index in range(2)]
        errors = errors_of(await finished(produce(node, *batches, transactional_id="tx")))
        assert errors[damaged_at] == ErrorCode.INVALID_RECORD
        assert errors[1 - damaged_at] == ErrorCode.NOT_ENOUGH_REPLICAS

    life(SimulatedFiles(), story, num_partitions="2")


def test_what_the_gate_refuses_closes_a_connection_that_waits_for_no_answer() -> None:
    async def story(node: Node) -> None:
        partition = await opened(node)
        with pytest.raises(CloseConnection, match="failed: NOT_ENOUGH_REPLICAS"):
            await finished(produce(node, batch(5, transactional=True), acks=0, transactional_id="x"))
        (responses,) = (await finished(produce(node, batch(5, transactional=True), transactional_id="x"))).responses
        assert [(one.error_code, one.error_message) for one in responses.partition_responses] == [
            (ErrorCode.NOT_ENOUGH_REPLICAS, None)
        ]
        assert partition.end_offset == 0

    life(SimulatedFiles(), story)


def test_an_append_that_the_disk_fails_is_told_and_ends_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = StorageFailed("no space")

    async def story(node: Node) -> None:
        broken = await opened(node)
        append_to = SegmentLog.append

        def fails(log: SegmentLog, *arguments: Any, **fields: Any) -> Any:
            if log is broken.log:
                raise failure
            return append_to(log, *arguments, **fields)

        monkeypatch.setattr(SegmentLog, "append", fails)
        (responses,) = (await finished(produce(node, batch(), batch(), acks=1))).responses
        assert [(one.error_code, one.base_offset) for one in responses.partition_responses] == [
            (ErrorCode.KAFKA_STORAGE_ERROR, -1),
            (ErrorCode.NONE, 0),
        ]
        assert node.failure is failure
        with pytest.raises(CloseConnection, match=r"a Produce with acks=0 failed: KAFKA_STORAGE_ERROR$"):
            await finished(produce(node, batch(), batch(), acks=0))

    life(SimulatedFiles(), story, stop=False, num_partitions="2")


def compressed(value: bytes, count: int = 1, **fields: int) -> memoryview:
    batch = bytearray(build_batch([NewRecord(value, timestamp_ms=1)] * count, compression=ZSTD))
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    seal(batch)
    return memoryview(batch)


def test_a_small_compressed_batch_is_opened_without_waiting() -> None:
    async def story(node: Node) -> None:
        await opened(node)
        assert errors_of(produce(node, compressed(b"v", 20), acks=1)) == [ErrorCode.NONE]
        lying = compressed(b"v", 20, records_count=30_000, last_offset_delta=29_999)
        assert errors_of(produce(node, lying, acks=1)) == [ErrorCode.INVALID_RECORD]

    life(SimulatedFiles(), story)


def test_a_large_compressed_batch_is_opened_beside_the_loop() -> None:
    """Others are served meanwhile; a refusal comes with Kafka's code, and what was deleted meanwhile is not written."""

    async def story(node: Node) -> None:
        partition = await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        zeros = compressed(bytes(1 << 20))
        lying = compressed(bytes(1 << 20), 2, records_count=3, last_offset_delta=2)
        waiting = [node.begin(produce(node, data, acks=1)) for data in (zeros, lying)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not [one for one in waiting if not isinstance(one, asyncio.Task) or one.done()]
        assert errors_of(produce(node, batch(), acks=1)) == [ErrorCode.NONE]
        disk.let_go()
        answers = [await one for one in waiting if isinstance(one, asyncio.Task)]
        assert [errors_of(answer) for answer in answers] == [[ErrorCode.NONE], [ErrorCode.INVALID_RECORD]]
        assert partition.end_offset == 2

        disk = HeldSyncs(node)
        late = node.begin(produce(node, compressed(bytes(1 << 20)), acks=1))
        assert isinstance(late, asyncio.Task)
        partition.discard()
        disk.let_go()
        assert errors_of(await late) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    life(SimulatedFiles(), story, stop=False)


@pytest.mark.parametrize(("large", "absent"), [(0, 0), (1, 0), (1, AT_ONCE)])
def test_a_large_compressed_batch_beside_a_small_one_is_opened_beside_the_loop(large: int, absent: int) -> None:
    """Also in a request of many partitions."""

    async def story(node: Node) -> None:
        await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        batches = [compressed(bytes(1 << 20) if index == large else b"v") for index in range(2)]
        waiting = node.begin(produce(node, *batches, *[batch()] * absent, acks=1))
        for _ in range(10):
            await asyncio.sleep(0)
        assert isinstance(waiting, asyncio.Task) and not waiting.done()
        disk.let_go()
        unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * absent
        assert errors_of(await waiting) == [ErrorCode.NONE] * 2 + unknown

    life(SimulatedFiles(), story, num_partitions="2")


def test_only_so_many_large_batches_are_open_at_a_time() -> None:
    """Each may come to `tallystick.decompression.max.bytes`."""

    async def story(node: Node) -> None:
        await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        waiting = [node.begin(produce(node, compressed(bytes(1 << 20)), acks=1)) for _ in range(5)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(disk._kept) == LARGE_AT_ONCE
        disk.let_go()
        for one in waiting:
            assert isinstance(one, asyncio.Task) and errors_of(await one) == [ErrorCode.NONE]

    life(SimulatedFiles(), story)
