"""Bad input over TCP: the documented error or a closed connection, nothing written, nobody else disturbed."""

import random
from struct import pack, unpack_from

import pytest

from protocol.codec import decode
from protocol.errors import ErrorCode
from protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceResponse
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tests.harness.framing import request_frame
from tests.server.wire import Wire, framed, header, make_topic, produce, still_serves


def batch(count: int = 1, **options: object) -> bytes:
    records = [NewRecord(key=None, value=b"value", timestamp_ms=1_700_000_000_000) for _ in range(count)]
    return bytes(build_batch(records, **options))  # type: ignore[arg-type]


def end_offset(broker: Broker, topic: str) -> int:
    with Wire(broker) as wire:
        partitions = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[partitions]), 1)
        return int(answer.topics[0].partitions[0].offset)  # type: ignore[attr-defined]


def outcome(broker: Broker, topic: str, records: bytes | None, version: int = 9, **options: object) -> ErrorCode:
    with Wire(broker) as wire:
        answer = wire.ask(produce(topic, records, **options), version)  # type: ignore[arg-type]
        response: PartitionProduceResponse = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        return ErrorCode(response.error_code)


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 2**31 - 1, (4 << 20) + 1])
def test_impossible_lengths(broker: Broker, length: int) -> None:
    with Wire(broker) as wire:
        wire.send(pack(">i", length) + b"x" * 10)
        assert wire.closed()
    still_serves(broker)


def test_garbage(broker: Broker) -> None:
    chance = random.Random(7)
    for _ in range(50):
        with Wire(broker) as wire:
            wire.send(framed(chance.randbytes(chance.randint(1, 300))))
            assert wire.closed()
    still_serves(broker)


@pytest.mark.parametrize("key", [-1, 4, 7, 99, 32767])
def test_unknown_keys_close_the_connection(broker: Broker, key: int) -> None:
    with Wire(broker) as wire:
        wire.send(framed(header(key, 0)))
        assert wire.closed()


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (1, 3), (3, -1), (3, 14), (26, 6)])
def test_unsupported_versions_close_the_connection(broker: Broker, key: int, version: int) -> None:
    with Wire(broker) as wire:
        wire.send(framed(header(key, version) + bytes(20)))
        assert wire.closed()


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_unknown_api_versions_versions_get_the_oldest_response(broker: Broker, version: int) -> None:
    """KIP-511."""
    with Wire(broker) as wire:
        wire.send(framed(header(18, version) + bytes(3)))
        frame = wire.frame()
        assert unpack_from(">i", frame)[0] == 7
        answer, end = decode(ApiVersionsResponse, 0, frame, 4)
        assert end == len(frame)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 4)]
        wire.send(request_frame(ApiVersionsRequest(), 0, 8))
        assert unpack_from(">i", wire.frame())[0] == 8


def test_every_truncation_of_a_request_closes_the_connection(broker: Broker) -> None:
    whole = request_frame(MetadataRequest(topics=[MetadataRequestTopic(name="no")]), 4, 1, "client")[4:]
    for size in range(1, len(whole) - 1):
        with Wire(broker) as wire:
            wire.send(framed(whole[:size]))
            assert wire.closed(), size
    still_serves(broker)


def test_a_request_cut_off_by_its_sender_is_forgotten(broker: Broker) -> None:
    make_topic(broker, "cut-off")
    frame = request_frame(produce("cut-off", batch(100)), 9, 1, "client")
    for size in (1, 4, 10, len(frame) - 1):
        with Wire(broker) as wire:
            wire.send(frame[:size])
    assert end_offset(broker, "cut-off") == 0


def test_batches_that_contradict_themselves_are_refused_and_nothing_is_written(broker: Broker) -> None:
    """I35."""
    make_topic(broker, "bad-batches")
    good = batch(2)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    cases: dict[str, tuple[bytes | None, ErrorCode]] = {
        "null": (None, ErrorCode.INVALID_RECORD),
        "empty": (b"", ErrorCode.INVALID_RECORD),
        "wrong CRC": (damaged, ErrorCode.CORRUPT_MESSAGE),
        "magic 1": (good[:16] + b"\x01" + good[17:], ErrorCode.INVALID_RECORD),
        "magic 3": (good[:16] + b"\x03" + good[17:], ErrorCode.CORRUPT_MESSAGE),
        "cut short": (good[:-3], ErrorCode.INVALID_RECORD),
        "two batches": (good + good, ErrorCode.INVALID_RECORD),
        "base offset": (bytes(7) + b"\x05" + good[8:], ErrorCode.INVALID_RECORD),
        "control batch": (batch(1, control=True), ErrorCode.INVALID_RECORD),
        "no sequence": (batch(1, producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        "transactional without id": (
            batch(1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        "tiny length": (good[:8] + pack(">i", 3) + good[12:], ErrorCode.CORRUPT_MESSAGE),
    }
    found = {name: outcome(broker, "bad-batches", records) for name, (records, _) in cases.items()}
    assert found == {name: expected for name, (_, expected) in cases.items()}
    assert end_offset(broker, "bad-batches") == 0
    assert outcome(broker, "bad-batches", good) == ErrorCode.NONE


def test_a_batch_larger_than_max_message_bytes(broker: Broker) -> None:
    make_topic(broker, "large")
    records = [NewRecord(key=None, value=bytes(1_100_000), timestamp_ms=1)]
    assert outcome(broker, "large", bytes(build_batch(records))) == ErrorCode.MESSAGE_TOO_LARGE
    assert end_offset(broker, "large") == 0


def test_acks_that_do_not_exist_and_topics_that_do_not(broker: Broker) -> None:
    make_topic(broker, "there")
    assert outcome(broker, "there", batch(), acks=2) == ErrorCode.INVALID_REQUIRED_ACKS
    assert outcome(broker, "there", batch(), index=17) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(broker, "there", batch(), index=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(broker, "not-there", batch()) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(broker, "", batch(), version=13) == ErrorCode.UNKNOWN_TOPIC_ID
    assert end_offset(broker, "there") == 0


def test_acks_0_gets_no_response_and_a_failure_disconnects(broker: Broker) -> None:
    make_topic(broker, "acks-0")
    with Wire(broker) as wire:
        wire.send(request_frame(produce("acks-0", batch(), acks=0), 9, 1))
        wire.send(request_frame(ApiVersionsRequest(), 0, 2))
        assert unpack_from(">i", wire.frame())[0] == 2
        wire.send(request_frame(produce("acks-0", batch()[:-3], acks=0), 9, 3))
        assert wire.closed()
    assert end_offset(broker, "acks-0") == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "ü"])
def test_illegal_topic_names(broker: Broker, name: str) -> None:
    with Wire(broker) as wire:
        answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 4)
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION  # type: ignore[attr-defined]


def test_a_refused_connection_costs_at_most_one_line(broker: Broker) -> None:
    before = broker.process.log.read_text().count("\n")
    with Wire(broker) as wire:
        wire.send(framed(header(99, 0)) * 20)
        assert wire.closed()
    assert broker.process.log.read_text().count("\n") <= before + 1
