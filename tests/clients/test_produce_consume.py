"""Records go in through one client and come out of another, with every codec and every acks level."""

import asyncio
import itertools

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.harness.confluent import consumer, make_topic, read_all, values_of, wait_until, write

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ACKS = [0, 1, "all"]


def payload(count: int, size_bytes: int = 200) -> list[bytes]:
    return [f"{number:08d}".encode() + bytes(range(256))[: size_bytes - 8] for number in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_writes_with_each_codec_and_reads_it_back(bootstrap: str, name: str, codec: str) -> None:
    make_topic(bootstrap, name, 3)
    sent = payload(500)
    deliveries = write(bootstrap, name, sent, compression__type=codec)
    assert not deliveries.failed and len(deliveries.acknowledged) == 500
    assert sorted(values_of(read_all(bootstrap, name))) == sent


@pytest.mark.parametrize("acks", ACKS)
def test_confluent_kafka_writes_with_each_acks_level(bootstrap: str, name: str, acks: object) -> None:
    make_topic(bootstrap, name)
    sent = payload(50)
    write(bootstrap, name, sent, acks=acks)
    wait_until(lambda: sorted(values_of(read_all(bootstrap, name))) == sent, f"50 records with acks={acks}")


@pytest.mark.parametrize(("codec", "acks"), [*zip(CODECS, itertools.cycle(ACKS), strict=False)])
def test_kafka_python_writes_and_reads(bootstrap: str, name: str, codec: str, acks: object) -> None:
    make_topic(bootstrap, name, 2)
    sent = payload(100)
    compression = None if codec == "none" else codec
    idempotent = acks == "all"
    writer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, acks=acks, enable_idempotence=idempotent
    )
    waiting = [writer.send(name, value, headers=[("n", value[:8])], timestamp_ms=1_700_000_000_000) for value in sent]
    writer.flush(60)
    writer.close()
    if acks != 0:
        assert {future.get(60).topic for future in waiting} == {name}
    reader = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    reader.assign([TopicPartition(name, 0), TopicPartition(name, 1)])
    found = list(itertools.islice(reader, len(sent)))
    reader.close()
    assert sorted(record.value for record in found) == sent
    assert all(record.headers == [("n", record.value[:8])] for record in found)
    assert {record.timestamp for record in found} == {1_700_000_000_000}


@pytest.mark.parametrize(("codec", "acks"), [*zip(CODECS, itertools.cycle(["all", 1, 0]), strict=False)])
def test_aiokafka_writes_and_reads(bootstrap: str, name: str, codec: str, acks: object) -> None:
    make_topic(bootstrap, name, 2)
    sent = payload(100)
    compression = None if codec == "none" else codec

    async def story() -> list[bytes]:
        writer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, acks=acks, enable_idempotence=acks == "all"
        )
        async with writer:
            await asyncio.gather(*[await writer.send(name, value, key=value[:8]) for value in sent])
        reader = AIOKafkaConsumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        async with reader:
            return [(await reader.getone()).value for _ in sent]

    assert sorted(asyncio.run(asyncio.wait_for(story(), 60))) == sent


def test_what_one_client_compresses_another_one_reads(bootstrap: str, name: str) -> None:
    """Batches travel as they came: five codecs of one client in one partition, read by the two others."""
    make_topic(bootstrap, name)
    for codec in CODECS:
        write(bootstrap, name, [codec.encode() * 100], compression__type=codec)
    reader = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    reader.assign([TopicPartition(name, 0)])
    assert [record.value for record in itertools.islice(reader, 5)] == [codec.encode() * 100 for codec in CODECS]
    reader.close()

    async def read_with_aiokafka() -> list[bytes]:
        async with AIOKafkaConsumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as other:
            return [(await other.getone()).value for _ in CODECS]

    assert asyncio.run(asyncio.wait_for(read_with_aiokafka(), 60)) == [codec.encode() * 100 for codec in CODECS]


def test_the_first_producer_creates_a_topic(bootstrap: str, name: str) -> None:
    write(bootstrap, name, payload(10), topic__metadata__refresh__fast__interval__ms=20)
    assert sorted(values_of(read_all(bootstrap, name))) == payload(10)


def test_reading_may_begin_inside_a_batch(bootstrap: str, name: str) -> None:
    """A fetch inside a batch brings the whole batch; the client drops what lies before (KIP-98)."""
    make_topic(bootstrap, name)
    write(bootstrap, name, payload(100), linger__ms=200, partition=0)
    reader = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=60_000)
    reader.assign([TopicPartition(name, 0)])
    reader.seek(TopicPartition(name, 0), 57)
    assert next(reader).offset == 57
    reader.close()


def test_a_record_larger_than_the_fetch_limit_still_arrives(bootstrap: str, name: str) -> None:
    """At least one whole batch per fetch (KIP-74)."""
    make_topic(bootstrap, name)
    large = bytes(500_000)
    write(bootstrap, name, [large, b"small"], partition=0)
    found = read_all(bootstrap, name, fetch__message__max__bytes=1000, fetch__max__bytes=1000, message__max__bytes=1000)
    assert values_of(found) == [large, b"small"]


def test_a_batch_larger_than_the_topic_allows_is_refused(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, max__message__bytes="10000")
    deliveries = write(bootstrap, name, [bytes(20_000)], message__max__bytes=1_000_000)
    assert [error.name() for error in deliveries.failed] == ["MSG_SIZE_TOO_LARGE"]
    assert read_all(bootstrap, name) == []


def test_records_are_found_by_their_time(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    writer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(10):
        writer.send(name, b"x", timestamp_ms=1_700_000_000_000 + 1000 * number).get(60)
    writer.close()
    reader = KafkaConsumer(bootstrap_servers=bootstrap)
    partition = TopicPartition(name, 0)
    found = reader.offsets_for_times({partition: 1_700_000_003_500})[partition]
    assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)
    assert reader.offsets_for_times({partition: 1_800_000_000_000})[partition] is None
    assert reader.beginning_offsets([partition]) == {partition: 0}
    assert reader.end_offsets([partition]) == {partition: 10}
    reader.close()


def test_an_awaited_record_wakes_the_fetch(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    reader = consumer(bootstrap, fetch__wait__max__ms=30_000, session__timeout__ms=45_000, group__id=name)
    reader.subscribe([name])
    wait_until(lambda: reader.poll(0.1) or reader.assignment(), "an assignment")
    write(bootstrap, name, [b"wake up"])
    found = wait_until(lambda: reader.poll(0.1), "the record, long before the 30 s of the fetch", seconds=20)
    assert found.value() == b"wake up"
    reader.close()
