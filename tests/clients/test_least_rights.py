"""Real clients over TLS, however they are let in, with the rights for one job: it is done, and nothing else.

The job: write orders; read them in a group and write an invoice for each in a transaction that commits the offsets,
too; write more in a transaction that is aborted. Then only the invoices of the first transaction are there, the group
has read everything, and another topic, group or transactional id is refused.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.abc import AbstractTokenProvider as AioTokens
from aiokafka.errors import GroupAuthorizationFailedError as AioGroupRefused
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicRefused
from aiokafka.errors import TransactionalIdAuthorizationFailed as AioTransactionRefused
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import OffsetAndMetadata

from tests.harness.confluent import wait_until
from tests.harness.guarded_place import (
    INVOICES,
    ORDERS,
    PASSWORD,
    USER,
    WAYS,
    GuardedPlace,
    GuardedPlaces,
    mechanism_of,
    shown_by,
)

SECONDS = 30.0
READING: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
}
"""For kafka-python and aiokafka."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedPlaces]:
    made = GuardedPlaces(tmp_path_factory.mktemp("places"))
    yield made
    made.close()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(places: GuardedPlaces, way: str) -> GuardedPlace:
    return places.of(way)


# ------------------------------------------------------------------------------------------------- confluent-kafka


def confluent(place: GuardedPlace, way: str, **more: Any) -> dict[str, Any]:
    mechanism, shown = mechanism_of(way), shown_by(way)
    settings = {
        "bootstrap.servers": place.broker.bootstrap,
        "security.protocol": "SASL_SSL" if mechanism else "SSL",
        "ssl.ca.location": str(place.certificates.path("ca")),
        "log_level": 0,
    }
    if shown:
        mine = str(place.certificates.path(shown))
        settings |= {"ssl.certificate.location": mine, "ssl.key.location": mine}
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (place.issuer.token(USER), time.time() + 600)
    elif mechanism:
        settings |= {"sasl.username": USER, "sasl.password": PASSWORD}
    return settings | {name.replace("__", "."): value for name, value in more.items()}


def confluent_reader(place: GuardedPlace, way: str, group: str, topic: str) -> Consumer:
    reading = {"group__id": group, "enable__auto__commit": False, "auto__offset__reset": "earliest"}
    reader = Consumer(confluent(place, way, isolation__level="read_committed", **reading))
    reader.subscribe([topic])
    return reader


def read(reader: Consumer, count: int) -> list[bytes]:
    found: list[Message] = []
    wait_until(lambda: found.extend(reader.consume(count, 0.5)) or len(found) >= count, "records", seconds=SECONDS)
    assert [message.error() for message in found if message.error()] == []
    return [message.value() for message in found]


def write(settings: dict[str, Any], topic: str, values: list[bytes]) -> set[int]:
    """The errors."""
    errors: set[int] = set()
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.add(error.code()) if error else None)
    assert producer.flush(SECONDS) == 0
    return errors


def test_confluent_kafka(place: GuardedPlace, way: str) -> None:
    job = place.job()
    assert write(confluent(place, way, enable__idempotence=True), job.orders, ORDERS) == set()
    reader = confluent_reader(place, way, job.name, job.orders)
    orders = read(reader, len(ORDERS))
    assert orders == ORDERS
    producer = Producer(confluent(place, way, transactional__id=job.name))
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for order in orders:
        producer.produce(job.invoices, b"invoice " + order)
    producer.send_offsets_to_transaction(
        reader.position(reader.assignment()), reader.consumer_group_metadata(), SECONDS
    )
    producer.commit_transaction(SECONDS)
    producer.begin_transaction()
    producer.produce(job.invoices, b"never")
    producer.flush(SECONDS)
    producer.abort_transaction(SECONDS)
    assert [one.offset for one in reader.committed([TopicPartition(job.orders, 0)], SECONDS)] == [len(ORDERS)]
    reader.close()
    reader = confluent_reader(place, way, job.name, job.invoices)
    assert read(reader, len(ORDERS)) == INVOICES == place.invoices(job)
    reader.close()


def test_confluent_kafka_where_it_may_not(place: GuardedPlace, way: str) -> None:
    job = place.job()
    refused = write(confluent(place, way, enable__idempotence=True), job.forbidden, ORDERS)
    assert refused == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    reader = confluent_reader(place, way, job.forbidden, job.orders)
    said = wait_until(lambda: (found := reader.poll(0.5)) and found.error(), "a refusal", seconds=SECONDS)
    assert said.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    reader.close()
    with pytest.raises(KafkaException) as told:
        Producer(confluent(place, way, transactional__id=job.forbidden)).init_transactions(SECONDS)
    assert told.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# ---------------------------------------------------------------------------------------------------- kafka-python


class Tokens(AbstractTokenProvider):
    """For kafka-python."""

    def __init__(self, place: GuardedPlace) -> None:
        self._issuer = place.issuer

    def token(self) -> str:
        return self._issuer.token(USER)


def kafka_python(place: GuardedPlace, way: str) -> dict[str, Any]:
    mechanism, shown = mechanism_of(way), shown_by(way)
    settings: dict[str, Any] = {
        "bootstrap_servers": place.broker.bootstrap,
        "security_protocol": "SASL_SSL" if mechanism else "SSL",
        "ssl_cafile": str(place.certificates.path("ca")),
    }
    if shown:
        settings["ssl_certfile"] = str(place.certificates.path(shown))
    if mechanism:
        settings["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens(place)
    elif mechanism:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    return settings


def python_reader(place: GuardedPlace, way: str, group: str, topic: str) -> KafkaConsumer:
    ends = {"consumer_timeout_ms": int(SECONDS * 1000)}
    return KafkaConsumer(topic, group_id=group, **ends, **READING, **kafka_python(place, way))


def test_kafka_python(place: GuardedPlace, way: str) -> None:
    job = place.job()
    producer = KafkaProducer(**kafka_python(place, way))
    sent = [producer.send(job.orders, order) for order in ORDERS]
    assert [one.get(SECONDS).offset for one in sent] == list(range(len(ORDERS)))
    producer.close()
    reader = python_reader(place, way, job.name, job.orders)
    orders = [next(reader).value for _ in ORDERS]
    assert orders == ORDERS
    producer = KafkaProducer(transactional_id=job.name, **kafka_python(place, way))
    producer.init_transactions()
    producer.begin_transaction()
    for order in orders:
        producer.send(job.invoices, b"invoice " + order)
    orders_read = PythonPartition(job.orders, 0)
    position = {orders_read: OffsetAndMetadata(reader.position(orders_read), "", -1)}
    producer.send_offsets_to_transaction(position, reader.group_metadata())
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(job.invoices, b"never").get(SECONDS)
    producer.abort_transaction()
    producer.close()
    assert reader.committed(orders_read) == len(ORDERS)
    reader.close()
    reader = python_reader(place, way, job.name, job.invoices)
    assert [next(reader).value for _ in ORDERS] == INVOICES == place.invoices(job)
    reader.close()


def test_kafka_python_where_it_may_not(place: GuardedPlace, way: str) -> None:
    job = place.job()
    producer = KafkaProducer(**kafka_python(place, way))
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(job.forbidden, b"never").get(SECONDS)
    producer.close()
    reader = python_reader(place, way, job.forbidden, job.orders)
    with pytest.raises(GroupAuthorizationFailedError):
        next(reader)
    reader.close()
    producer = KafkaProducer(transactional_id=job.forbidden, **kafka_python(place, way))
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close()


# -------------------------------------------------------------------------------------------------------- aiokafka


class AsyncTokens(AioTokens):
    def __init__(self, place: GuardedPlace) -> None:
        self._issuer = place.issuer

    async def token(self) -> str:
        return self._issuer.token(USER)


def aiokafka(place: GuardedPlace, way: str) -> dict[str, Any]:
    settings = kafka_python(place, way)
    files = {"ssl_cafile", "ssl_certfile"}
    settings = {name: value for name, value in settings.items() if name not in files}
    settings["ssl_context"] = place.certificates.client_context(shown_by(way))
    return settings | ({"sasl_oauth_token_provider": AsyncTokens(place)} if way == "OAUTHBEARER" else {})


async def aio_read(place: GuardedPlace, way: str, group: str, topic: str) -> AIOKafkaConsumer:
    reader = AIOKafkaConsumer(topic, group_id=group, **READING, **aiokafka(place, way))
    await reader.start()
    return reader


def test_aiokafka(place: GuardedPlace, way: str) -> None:
    job = place.job()

    async def story() -> None:
        async with AIOKafkaProducer(enable_idempotence=True, **aiokafka(place, way)) as producer:
            for order in ORDERS:
                await producer.send_and_wait(job.orders, order)
        reader = await aio_read(place, way, job.name, job.orders)
        orders = [(await reader.getone()).value for _ in ORDERS]
        assert orders == ORDERS
        orders_read = AioPartition(job.orders, 0)
        async with AIOKafkaProducer(transactional_id=job.name, **aiokafka(place, way)) as producer:
            async with producer.transaction():
                for order in orders:
                    await producer.send(job.invoices, b"invoice " + order)
                position = {orders_read: await reader.position(orders_read)}
                await producer.send_offsets_to_transaction(position, job.name)
            await producer.begin_transaction()
            await producer.send_and_wait(job.invoices, b"never")
            await producer.abort_transaction()
        assert await reader.committed(orders_read) == len(ORDERS)
        await reader.stop()
        reader = await aio_read(place, way, job.name, job.invoices)
        assert [(await reader.getone()).value for _ in ORDERS] == INVOICES
        await reader.stop()

    asyncio.run(asyncio.wait_for(story(), SECONDS))
    assert place.invoices(job) == INVOICES


def test_aiokafka_where_it_may_not(place: GuardedPlace, way: str) -> None:
    job = place.job()

    async def story() -> None:
        async with AIOKafkaProducer(**aiokafka(place, way)) as producer:
            with pytest.raises(AioTopicRefused):
                await producer.send_and_wait(job.forbidden, b"never")
        reader = AIOKafkaConsumer(job.orders, group_id=job.forbidden, **READING, **aiokafka(place, way))
        with pytest.raises(AioGroupRefused):
            await reader.start()
            await reader.getone()
        await reader.stop()
        producer = AIOKafkaProducer(transactional_id=job.forbidden, **aiokafka(place, way))
        with pytest.raises(AioTransactionRefused):
            await producer.start()
        await producer.stop()

    asyncio.run(asyncio.wait_for(story(), SECONDS))
