"""Real clients over TLS: with certificates of their own and without. (Passwords on top: `test_least_rights`.)"""

import asyncio
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.harness.certificates import Certificates
from tests.harness.confluent import wait_until
from tests.harness.secure_broker import SecureBroker, secure_broker

SECONDS = 30.0
WAYS = ("SSL", "SSL with a certificate")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, and who vouches for it."""

    broker: SecureBroker
    certificates: Certificates


def _place(folder: Any, client_auth: str) -> Place:
    certificates = Certificates(folder / "certificates")
    certificates.issue("alice")
    certificates.issue("late", ended=True)
    prefix = "listener.name.secure."
    settings = certificates.settings(client_auth=client_auth, prefix=prefix)
    settings[f"{prefix}ssl.principal.mapping.rules"] = "RULE:^CN=([a-z]*),.*$/$1/,DEFAULT"
    return Place(secure_broker(folder / "broker", settings, "SSL"), certificates)


@pytest.fixture(scope="module")
def requested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = _place(tmp_path_factory.mktemp("requested"), "requested")
    yield place
    place.broker.process.close()


@pytest.fixture(scope="module")
def required(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = _place(tmp_path_factory.mktemp("required"), "required")
    yield place
    place.broker.process.close()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """How a client is let in."""
    return str(request.param)


@pytest.fixture
def place(requested: Place) -> Place:
    return requested


@pytest.fixture
def topic() -> str:
    return f"tls-{next(_numbers)}"


def confluent(place: Place, way: str, *, shown: str = "alice", **more: Any) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": place.broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(place.certificates.path("ca")),
        "log_level": 0,
    }
    if way == "SSL with a certificate":
        mine = str(place.certificates.path(shown))
        settings |= {"ssl.certificate.location": mine, "ssl.key.location": mine}
    return settings | more


def kafka_python(place: Place, way: str, shown: str = "alice") -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": place.broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(place.certificates.path("ca")),
    }
    if way == "SSL with a certificate":
        settings |= {"ssl_certfile": str(place.certificates.path(shown))}
    return settings


def aiokafka(place: Place, way: str) -> dict[str, Any]:
    context = place.certificates.client_context("alice" if way == "SSL with a certificate" else None)
    settings = kafka_python(place, way)
    for name in ("ssl_cafile", "ssl_certfile"):
        settings.pop(name, None)
    return settings | {"ssl_context": context}


def test_confluent_kafka_in_a_transaction_and_a_group(place: Place, way: str, topic: str) -> None:
    producer = Producer(confluent(place, way) | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    values = [number.to_bytes(2, "big") * 500 for number in range(2000)]
    for commits in (False, True):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
            producer.poll(0)
        if commits:
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
    reading = {"group.id": topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer(confluent(place, way) | reading)
    consumer.subscribe([topic])
    found: list[bytes] = []
    wait_until(lambda: found.extend(m.value() for m in consumer.consume(500, 0.5)) or len(found) >= 2000, "records")
    consumer.close()
    assert sorted(found) == values


def test_kafka_python(place: Place, way: str, topic: str) -> None:
    producer = KafkaProducer(**kafka_python(place, way))
    large = bytes(range(256)) * 3000
    assert producer.send(topic, large).get(SECONDS).offset == 0
    producer.close()
    consumer = KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(SECONDS * 1000),
        **kafka_python(place, way),
    )
    assert next(consumer).value == large
    consumer.close()


def test_aiokafka_in_a_transaction(place: Place, way: str, topic: str) -> None:
    async def story() -> None:
        settings = aiokafka(place, way)
        producer = AIOKafkaProducer(transactional_id=topic, **settings)
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"one")
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", isolation_level="read_committed", **settings)
        await consumer.start()
        assert (await asyncio.wait_for(consumer.getone(), SECONDS)).value == b"one"
        await consumer.stop()

    asyncio.run(story())


@pytest.mark.parametrize(("way", "shown"), [("SSL", ""), ("SSL with a certificate", "late")], indirect=["way"])
def test_who_shows_no_certificate_or_an_old_one_is_not_let_in(
    required: Place, way: str, shown: str, topic: str
) -> None:
    errors: list[KafkaError] = []
    producer = Producer(confluent(required, way, shown=shown, error_cb=errors.append))
    producer.produce(topic, b"never")
    wait_until(lambda: (producer.poll(0.1), errors)[1], "a refusal")
    assert re.search(r"alert (bad )?certificate", errors[0].str()), "it is told why"
    producer.purge()
    producer.flush(SECONDS)
    with pytest.raises(Exception, match=r"ootstrap|NoBrokers|ssl|SSL"):
        KafkaProducer(**kafka_python(required, way, shown), bootstrap_timeout_ms=1000)


def test_a_client_that_does_not_trust_the_broker_sends_it_nothing(required: Place, topic: str, tmp_path: Any) -> None:
    others = Certificates(tmp_path / "others", name="another authority")
    errors: list[KafkaError] = []
    trusting = {"ssl.ca.location": str(others.path("ca")), "error_cb": errors.append}
    producer = Producer(confluent(required, "SSL with a certificate") | trusting)
    producer.produce(topic, b"never")
    wait_until(lambda: (producer.poll(0.1), errors)[1], "a refusal")
    assert "certificate verify failed" in errors[0].str()  # librdkafka has one of two codes for it
    producer.purge()
    producer.flush(SECONDS)
