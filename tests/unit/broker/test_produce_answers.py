"""What is answered to a Produce, field by field, on its way for few partitions and on that for many."""

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from broker.api.catalogue import Deferred
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.handlers.produce import AT_ONCE
from broker.node import Node
from broker.process.time_slice import TimeSlice
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import BatchHeader, read_header
from protocol.records.compression import GZIP, ZSTD
from protocol.records.record import NewRecord, build_batch
from tests.harness.simulated_files import SimulatedFiles
from tests.harness.turns import CallsPerTurn
from tests.unit.broker.test_restarts import life, opened

FEW, MANY = 3, AT_ONCE + 3
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def batch(producer_id: int = -1, *, compression: int = 0, count: int = 1, transactional: bool = False) -> memoryview:
    producer: dict[str, Any] = {}
    if producer_id >= 0:
        producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": transactional}
    records = [NewRecord(value=b"v" * 20, timestamp_ms=1)] * count
    return memoryview(build_batch(records, compression=compression, **producer))


async def produce(
    node: Node,
    *wanted: tuple[int, memoryview | None],
    topic: str = "t",
    topic_id: bytes = bytes(16),
    acks: int = -1,
    version: int = 9,
    transactional_id: str | None = None,
) -> list[Any]:
    data = [PartitionProduceData(index=index, records=records) for index, records in wanted]
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1, topic_data=topics)
    context = RequestContext(ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1), 0, version, 1, "client")
    answer = node.catalogue[0].handler(node.services, context, request)
    answer = await answer if isinstance(answer, Awaitable) else answer
    answer = await answer.answer if isinstance(answer, Deferred) else answer
    (told,) = answer.responses
    assert (told.name, told.topic_id) == (topic, topic_id)
    return list(told.partition_responses)


def codes(told: Sequence[Any]) -> list[int]:
    return [one.error_code for one in told]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_partitions_that_are_not_there(count: int) -> None:
    async def story(node: Node) -> None:
        await opened(node)
        found = node.services.topics.by_name("t")
        assert found is not None
        rest = [(0, batch())] * (count - 3)
        told = await produce(node, (-1, batch()), (1, batch()), (2, batch()), *rest)
        assert codes(told) == [UNKNOWN, 0, UNKNOWN] + [0] * (count - 3)
        assert [one.index for one in told][:3] == [-1, 1, 2]
        assert [one.base_offset for one in told] == [-1, 0, -1, *range(count - 3)]
        assert [partition.end_offset for partition in found.partitions] == [count - 3, 1]
        assert codes(await produce(node, *[(0, batch())] * count, topic="gone")) == [UNKNOWN] * count
        by_id = await produce(node, *[(1, batch())] * count, topic="", topic_id=found.topic_id, version=13)
        assert codes(by_id) == [0] * count
        by_id = await produce(node, *[(0, batch())] * count, topic="", topic_id=b"n" * 16, version=13)
        assert codes(by_id) == [ErrorCode.UNKNOWN_TOPIC_ID] * count

    life(SimulatedFiles(), story, num_partitions="2")


@pytest.mark.parametrize("count", [FEW, MANY])
def test_each_field_of_an_answer(count: int) -> None:
    async def story(node: Node) -> None:
        await opened(node)
        rest = [(0, batch())] * (count - 3)
        first, second, third, *_ = await produce(node, (0, batch(count=3)), (0, None), (0, batch(count=2)), *rest)
        for one, base_offset in ((first, 0), (third, 3)):
            assert (one.index, one.error_code, one.base_offset, one.error_message) == (0, 0, base_offset, None)
            assert (one.log_append_time_ms, one.log_start_offset, one.record_errors) == (-1, 0, [])
            assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (-1, -1)
        assert (second.error_code, second.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert (second.log_append_time_ms, second.log_start_offset, second.record_errors) == (-1, -1, [])

    life(SimulatedFiles(), story)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_where_the_broker_says_when_a_record_came(count: int) -> None:
    async def story(node: Node) -> None:
        await opened(node)
        before_ms = node.environment.wall_ms()
        (stamp_ms,) = {one.log_append_time_ms for one in await produce(node, *[(0, batch())] * count)}
        assert before_ms < stamp_ms < node.environment.wall_ms()

    life(SimulatedFiles(), story, log_message_timestamp_type="LogAppendTime")


@pytest.mark.parametrize("count", [1, FEW, MANY])
@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
def test_zstd_is_for_clients_that_know_it(count: int, version: int, code: ErrorCode) -> None:
    async def story(node: Node) -> None:
        await opened(node)
        assert codes(await produce(node, *[(0, batch(compression=ZSTD))] * count, version=version)) == [code] * count
        assert codes(await produce(node, *[(0, batch(compression=GZIP))] * count, version=version)) == [0] * count

    life(SimulatedFiles(), story)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_refuses_a_request_with_transactional_batches_as_a_whole(count: int) -> None:
    mapping, denied = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    async def story(node: Node) -> None:
        partition = await opened(node)
        one, other = batch(1, transactional=True), batch(2, transactional=True)
        rest = [(0, batch())] * (count - 2)
        told = await produce(node, (0, one), (0, other), *rest, transactional_id="x")
        assert codes(told) == [mapping] * count
        assert {response.error_message for response in told} == {
            "The request holds transactional batches of more than one producer."
        }
        told = await produce(node, (0, one), *rest, (0, batch()))
        assert codes(told) == [denied] * count
        assert {response.error_message for response in told} == {None}
        assert partition.end_offset == 0

    life(SimulatedFiles(), story)


def test_headers_are_read_of_what_is_long_enough() -> None:
    async def story(node: Node) -> None:
        partition = await opened(node)
        whole = batch()
        header: BatchHeader = read_header(whole)
        told = await produce(node, *[(0, whole[:size]) for size in (0, 1, 60, 61, len(whole) - 1)])
        assert codes(told) == [ErrorCode.INVALID_RECORD] * 5
        assert partition.end_offset == 0 and header.records_count == 1

    life(SimulatedFiles(), story)


@pytest.mark.parametrize(("seconds", "most"), [(0.0, 3 * AT_ONCE), (1.0, AT_ONCE)], ids=["quick", "slow"])
def test_others_have_their_turn_while_many_transactional_batches_are_looked_at(
    seconds: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And while there is time nobody is waited for."""
    clock = [0.0]

    async def story(node: Node) -> None:
        partition = await opened(node)
        environment: Any = node.environment
        environment.time_slice = lambda: TimeSlice(lambda: clock[0])
        looks = partition.needs_verification
        looked_at = CallsPerTurn(looks)

        def takes_time(records: memoryview) -> BatchHeader | None:
            if looked_at.total == 3 * AT_ONCE:
                return looks(records)  # the gate asks again
            clock[0] += seconds
            found: BatchHeader | None = looked_at(records)
            return found

        monkeypatch.setattr(partition, "needs_verification", takes_time)
        wanted = [(0, batch(5, transactional=True))] * 3 * AT_ONCE
        assert len(await produce(node, *wanted, transactional_id="x")) == looked_at.total == 3 * AT_ONCE
        assert looked_at.most == most

    life(SimulatedFiles(), story)
