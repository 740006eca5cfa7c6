"""Whoever may not go on in the middle of a transaction: it is committed once or not at all, by whoever may.

`TALLYSTICK_TEST_BROKER=apache-kafka` tells these stories to Apache Kafka.
"""

import itertools
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, UserScramCredentialDeletion

from tests.clients.test_sasl import ISSUER, confluent, started
from tests.harness.certificates import Certificates
from tests.harness.confluent import make_topic, read_all, values_of, wait_until
from tests.harness.secure_broker import SCRAM, SecureBroker, secure_broker

SESSION_MS = 3000
SECONDS = 30.0
TOKEN_S = 6
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    settings = {"listener.name.secure.connections.max.reauth.ms": str(SESSION_MS)}
    yield from started(tmp_path_factory.mktemp("ended"), settings)


@pytest.fixture
def topic(broker: SecureBroker) -> str:
    return make_topic(broker.open_bootstrap, f"ended-{next(_numbers)}")


def begun(settings: dict[str, Any], topic: str, value: bytes) -> Producer:
    """A producer with a record in an open transaction."""
    producer = Producer(settings | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    return producer


def wait_for_the_end_of(end_s: float) -> None:
    """Until sessions that end at this time, by the wall clock, are over for certain."""
    wait_until(lambda: time.time() > end_s + 1, "the end of a session")


def is_not_let_in(producer: Producer) -> None:
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(3)
    error = refused.value.args[0]
    assert error.retriable() and not error.fatal(), error


def remove(broker: SecureBroker, user: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.open_bootstrap})
    for mechanism in SCRAM.values():
        for done in admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)]).values():
            done.result()


def committed(broker: SecureBroker, topic: str) -> list[bytes]:
    return sorted(values_of(read_all(broker.open_bootstrap, topic)))


def as_user(broker: SecureBroker, name: str, password: str) -> dict[str, Any]:
    return confluent(broker, "SCRAM-SHA-256") | {"sasl.username": name, "sasl.password": password}


def another_goes_on(settings: dict[str, Any], topic: str, first: Producer) -> None:
    """A producer with the same id ends what is open, and commits its own; the first is a zombie."""
    second = begun(settings, topic, b"second")
    second.commit_transaction(SECONDS)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(SECONDS)
    error = fenced.value.args[0]
    assert error.fatal() and error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH), error


def test_a_user_who_is_removed_and_another_who_goes_on(broker: SecureBroker, topic: str) -> None:
    name = topic
    broker.add_users({name: "old"})
    producer = begun(as_user(broker, name, "old"), topic, b"first")
    remove(broker, name)
    wait_for_the_end_of(time.time() + SESSION_MS / 1000)
    is_not_let_in(producer)
    broker.add_users({name: "old"})
    another_goes_on(as_user(broker, "uwe", "uwe-secret"), topic, producer)
    assert committed(broker, topic) == [b"second"]


def test_a_password_that_is_changed_and_then_known(broker: SecureBroker, topic: str) -> None:
    name = topic
    broker.add_users({name: "old"})
    producer = begun(as_user(broker, name, "old"), topic, b"first")
    broker.add_users({name: "new"})
    wait_for_the_end_of(time.time() + SESSION_MS / 1000)
    is_not_let_in(producer)
    producer.set_sasl_credentials(name, "new")
    producer.commit_transaction(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"next")
    producer.commit_transaction(SECONDS)
    assert committed(broker, topic) == [b"first", b"next"]


class Tokens:
    """Good ones, until `stopped`."""

    def __init__(self) -> None:
        self.stopped = False
        self.ends_s = 0.0
        self.made = 0

    def __call__(self, _: str) -> tuple[str, float]:
        if self.stopped:
            raise ValueError("there are no more tokens")
        self.ends_s = time.time() + TOKEN_S
        self.made += 1
        return ISSUER.token("ute", lasts_s=TOKEN_S), self.ends_s


def test_a_token_that_ends_without_another(broker: SecureBroker, topic: str) -> None:
    tokens = Tokens()
    producer = begun(confluent(broker, "OAUTHBEARER", oauth_cb=tokens), topic, b"first")
    tokens.stopped = True
    producer.poll(0)
    wait_for_the_end_of(tokens.ends_s)
    is_not_let_in(producer)
    tokens.stopped = False
    another_goes_on(confluent(broker, "OAUTHBEARER"), topic, producer)
    assert committed(broker, topic) == [b"second"]


def test_tokens_that_end_and_others_that_come(broker: SecureBroker, topic: str) -> None:
    tokens = Tokens()
    producer = begun(confluent(broker, "OAUTHBEARER", oauth_cb=tokens), topic, b"first")
    first_ends_s, enough = tokens.ends_s, tokens.made + 2
    wait_until(lambda: (producer.poll(0.1), tokens.made >= enough and time.time() > first_ends_s)[1], "new tokens")
    producer.produce(topic, b"second")
    producer.commit_transaction(SECONDS)
    assert committed(broker, topic) == [b"first", b"second"]


def test_a_certificate_that_ends_in_the_middle(tmp_path: Any) -> None:
    """Who is in stays in; who comes anew does not get in."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.issue("bob")
    settings = certificates.settings(client_auth="required", prefix="listener.name.secure.")
    made = secure_broker(tmp_path / "broker", settings, "SSL")

    def shown(name: str) -> dict[str, Any]:
        path = str(certificates.path(name))
        return {
            "bootstrap.servers": made.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates.path("ca")),
            "ssl.certificate.location": path,
            "ssl.key.location": path,
            "log_level": 0,
        }

    try:
        topic = make_topic(made.open_bootstrap, "ended")
        certificates.issue("alice", lasts=timedelta(seconds=10))
        ends_s = time.time() + 10
        producer = begun(shown("alice"), topic, b"first")
        wait_for_the_end_of(ends_s)
        producer.commit_transaction(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, b"open")
        assert producer.flush(SECONDS) == 0
        late = Producer(shown("alice") | {"transactional.id": topic})
        with pytest.raises(KafkaException):
            late.init_transactions(2)
        another_goes_on(shown("bob"), topic, producer)
        assert committed(made, topic) == [b"first", b"second"]
    finally:
        made.process.close()
