"""Real clients over SASL_PLAINTEXT: each mechanism, wrong passwords, sessions that end, tokens."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from protocol.messages.metadata import MetadataRequest
from tallystick.client.client import TRANSACTION, Client
from tallystick.client.errors import ConnectionLost
from tallystick.client.security import Credentials, Security
from tests.harness.confluent import make_topic, read_all, values_of
from tests.harness.secure_broker import MODULES, SCRAM, SecureBroker, sasl_settings, secure_broker
from tests.harness.token_issuer import TokenIssuer
from tests.harness.transactional import TransactionalProducer

PASSWORDS = {"ute": "ute's, secret=1", "uwe": "uwe-secret"}
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
ISSUER = TokenIssuer()
PATIENCE_S = 30
_numbers = itertools.count()


class Tokens(AbstractTokenProvider):
    """For kafka-python."""

    def token(self) -> str:
        return ISSUER.token("ute")


class AsyncTokens(AioTokens):
    async def token(self) -> str:
        return ISSUER.token("ute")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    yield from started(tmp_path_factory.mktemp("sasl"), {})


@pytest.fixture(scope="module")
def of_short_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """Not all clients authenticate again; those are disconnected."""
    settings = {"listener.name.secure.connections.max.reauth.ms": "1500"}
    yield from started(tmp_path_factory.mktemp("sessions"), settings)


def started(folder: Path, more: dict[str, str]) -> Iterator[SecureBroker]:
    settings = sasl_settings(PASSWORDS, "OAUTHBEARER") | ISSUER.settings(folder) | more
    made = secure_broker(folder / "broker", settings)
    made.add_users(PASSWORDS)
    yield made
    made.process.close()


@pytest.fixture
def topic(broker: SecureBroker) -> str:
    return f"sasl-{next(_numbers)}"


# ------------------------------------------------------------------------------------------------- confluent-kafka


def confluent(broker: SecureBroker, mechanism: str, password: str | None = None, **more: Any) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (ISSUER.token("ute"), time.time() + 600)
    else:
        settings |= {"sasl.username": "ute", "sasl.password": password or PASSWORDS["ute"]}
    return settings | more


def wait_for(what: Callable[[], Any], poll: Callable[[], Any]) -> Any:
    """Poll until something is there."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        poll()
        if (found := what()) is not None:
            return found
    raise AssertionError("nothing came")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_in_a_session_that_ends_and_begins_anew(
    of_short_sessions: SecureBroker, topic: str, mechanism: str
) -> None:
    """Records are sent for longer than a session lasts; the client authenticates again, and none is lost."""
    broker = of_short_sessions
    errors: list[KafkaError] = []
    delivered: list[int] = []
    producer = Producer(confluent(broker, mechanism, error_cb=errors.append) | {"enable.idempotence": True})
    ends = time.monotonic() + 4
    sent = 0
    while time.monotonic() < ends:
        producer.produce(topic, b"%d" % sent, on_delivery=lambda error, message: delivered.append(message.offset()))
        sent += 1
        producer.flush(PATIENCE_S)
    assert len(delivered) == sent
    consumer = Consumer(
        confluent(broker, mechanism) | {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < sent:
        message = wait_for(lambda: polled.pop() if polled else None, lambda: polled.extend(consumer.consume(1, 0.5)))
        found.append(message.value())
    consumer.close()
    assert sorted(found) == sorted(b"%d" % number for number in range(sent))
    # An idle connection may have ended, or the only one, where the client came too late to authenticate again.
    passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    assert [error for error in errors if error.code() not in passing] == []


polled: list[Any] = []


@pytest.mark.parametrize("mechanism", ("PLAIN", *SCRAM))
def test_confluent_kafka_with_a_wrong_password(broker: SecureBroker, topic: str, mechanism: str) -> None:
    errors: list[KafkaError] = []
    producer = Producer(confluent(broker, mechanism, "wrong", error_cb=errors.append))
    producer.produce(topic, b"never")
    error = wait_for(lambda: errors[0] if errors else None, lambda: producer.poll(0.1))
    assert error.code() == KafkaError._AUTHENTICATION
    producer.purge()
    producer.flush(PATIENCE_S)


# ---------------------------------------------------------------------------------------------------- kafka-python


def kafka_python(broker: SecureBroker, mechanism: str, password: str | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": Tokens()}
    return settings | {"sasl_plain_username": "ute", "sasl_plain_password": password or PASSWORDS["ute"]}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: SecureBroker, topic: str, mechanism: str) -> None:
    producer = KafkaProducer(**kafka_python(broker, mechanism))
    assert producer.send(topic, b"one").get(PATIENCE_S).offset == 0
    producer.close()
    consumer = KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
        **kafka_python(broker, mechanism),
    )
    assert next(consumer).value == b"one"
    consumer.close()


@pytest.mark.parametrize("mechanism", ("PLAIN", *SCRAM))
def test_kafka_python_with_a_wrong_password(broker: SecureBroker, mechanism: str) -> None:
    with pytest.raises(Exception, match=r"bootstrap|uthentication"):
        KafkaProducer(**kafka_python(broker, mechanism, "wrong"), bootstrap_timeout_ms=1000)


# -------------------------------------------------------------------------------------------------------- aiokafka


def aiokafka(broker: SecureBroker, mechanism: str, password: str | None = None) -> dict[str, Any]:
    settings = kafka_python(broker, mechanism, password)
    return settings | ({"sasl_oauth_token_provider": AsyncTokens()} if mechanism == "OAUTHBEARER" else {})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_in_a_transaction(broker: SecureBroker, topic: str, mechanism: str) -> None:
    async def story() -> None:
        producer = AIOKafkaProducer(transactional_id=topic, **aiokafka(broker, mechanism))
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"one")
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, auto_offset_reset="earliest", isolation_level="read_committed", **aiokafka(broker, mechanism)
        )
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        assert message.value == b"one"
        await consumer.stop()

    asyncio.run(story())


@pytest.mark.parametrize("mechanism", ("PLAIN", *SCRAM))
def test_aiokafka_with_a_wrong_password(broker: SecureBroker, mechanism: str) -> None:
    async def story() -> None:
        producer = AIOKafkaProducer(**aiokafka(broker, mechanism, "wrong"))
        try:
            with pytest.raises(Exception, match=r"bootstrap|uthentication"):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(story())


def test_a_token_of_another_issuer_lets_nobody_in(broker: SecureBroker, topic: str) -> None:
    forged = TokenIssuer().token("ute")
    errors: list[KafkaError] = []
    settings = confluent(broker, "OAUTHBEARER", error_cb=errors.append)
    producer = Producer(settings | {"oauth_cb": lambda _: (forged, time.time() + 600)})
    producer.produce(topic, b"never")
    error = wait_for(lambda: errors[0] if errors else None, lambda: producer.poll(0.1))
    assert error.code() == KafkaError._AUTHENTICATION
    producer.purge()
    producer.flush(PATIENCE_S)


def command(*arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tallystick", "users", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        input=typed,
        check=False,
    )


def test_users_are_looked_after_from_the_command_line(broker: SecureBroker, topic: str, tmp_path: Path) -> None:
    where = ("--bootstrap-server", broker.bootstrap)
    for mechanism, module in (("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")):
        known = f'username="ute" password="{PASSWORDS["ute"]}"'
        settings = tmp_path / f"{mechanism}.properties"
        settings.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={MODULES}.{module} required \\\n  {known};\n"
        )
        guarded = (*where, "--command-config", str(settings))
        written = "SCRAM-SHA-256=[iterations=8192,password=x y],SCRAM-SHA-512=[password=z]"
        done = command(*guarded, "--alter", "--entity-name", topic, "--add-config", written)
        assert (done.returncode, done.stdout) == (0, f"Completed updating config for user {topic}.\n"), done.stderr
        done = command(*guarded, "--describe", "--entity-name", topic)
        shown = "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
        assert done.stdout == f"SCRAM credential configs for user-principal '{topic}' are {shown}\n"
        (user,) = json.loads(command(*guarded, "--describe", "--entity-name", topic, "--json").stdout)
        assert user["user"] == topic and {"mechanism": "SCRAM-SHA-256", "iterations": 8192} in user["credentials"]
        producer = KafkaProducer(
            **kafka_python(broker, "SCRAM-SHA-256") | {"sasl_plain_username": topic, "sasl_plain_password": "x y"}
        )
        producer.close()
        done = command(*guarded, "--alter", "--entity-name", topic, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
        assert done.returncode == 0, done.stderr
        assert f"'{topic}'" not in command(*guarded, "--describe").stdout
    done = command(*guarded, "--describe", "--entity-name", topic)
    assert (done.returncode, done.stdout) == (1, "") and "does not exist" in done.stderr
    settings.write_text(settings.read_text().replace(PASSWORDS["ute"], "hunter2"))
    done = command(*guarded, "--describe")
    assert done.returncode == 1 and "SASL_AUTHENTICATION_FAILED" in done.stderr and "hunter2" not in done.stderr
    assert command(*where, "--describe").returncode == 1


def test_a_password_that_is_not_on_the_command_line_is_asked_for(broker: SecureBroker, topic: str) -> None:
    where = ("--bootstrap-server", broker.open_bootstrap, "--entity-name", topic)
    done = command(*where, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096]", typed="typed secret\n")
    assert done.returncode == 0 and "typed secret" not in done.stdout + done.stderr
    KafkaProducer(
        **kafka_python(broker, "SCRAM-SHA-256") | {"sasl_plain_username": topic, "sasl_plain_password": "typed secret"}
    ).close()
    done = command(*where, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=1,password=x]")
    assert done.returncode == 1 and "Too few iterations" in done.stderr
    for wrong in (["--add-config", "nonsense"], ["--delete-config", "SCRAM-SHA-1"], []):
        assert command(*where, "--alter", *wrong).returncode == 2


def test_a_session_that_ends_in_the_middle_of_a_transaction(of_short_sessions: SecureBroker, topic: str) -> None:
    """The connection is closed with the next request. The transaction stays open, and is committed from another one."""
    make_topic(of_short_sessions.open_bootstrap, topic)
    security = Security(credentials=Credentials("SCRAM-SHA-256", "ute", PASSWORDS["ute"]))

    async def story() -> None:
        client = await Client.connect(of_short_sessions.bootstrap, security=security)
        producer = TransactionalProducer(client, topic)
        # A session may end before as well: then it is tried anew.
        while True:
            try:
                await producer.init()
                producer.begin()
                await producer.produce(topic, 0, [b"one"])
                break
            except ConnectionLost:
                continue
        connection = await client.coordinator(topic, TRANSACTION)
        with pytest.raises(ConnectionLost):
            while True:  # until the session ends
                await connection.ask(MetadataRequest(topics=[]), 9)
                await asyncio.sleep(0.05)
        client.hang_up()
        producer.client = await Client.connect(of_short_sessions.bootstrap, security=security)
        assert (await producer.commit()).error_code == 0
        await producer.client.close()

    asyncio.run(story())
    found = wait_for(lambda: values_of(read_all(of_short_sessions.open_bootstrap, topic)) or None, lambda: None)
    assert found == [b"one"]
