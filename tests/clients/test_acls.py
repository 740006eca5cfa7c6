"""Real clients that may not do everything: confluent-kafka behind SASL, and `tallystick acls`."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tallystick.cli.acls import acls
from tests.harness.secure_broker import SecureBroker, sasl_settings, secure_broker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}
PASSWORDS = {"alice": "alice-secret", "root": "root-secret"}
PATIENCE_S = 30
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = secure_broker(tmp_path_factory.mktemp("acls"), sasl_settings(PASSWORDS) | SETTINGS)
    yield made
    made.process.close()


@pytest.fixture
def topic(broker: SecureBroker) -> str:
    name = f"acls-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": broker.open_bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    return name


def as_alice(broker: SecureBroker, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORDS["alice"],
        "log_level": 0,
        **more,
    }


def command(broker: SecureBroker, *options: str) -> str:
    """What `tallystick acls` prints; it has to end with status 0."""
    done = CliRunner().invoke(acls, ["--bootstrap-server", broker.open_bootstrap, *options])
    assert done.exit_code == 0, done.output
    return done.output


def allow(broker: SecureBroker, *options: str) -> None:
    command(broker, "--add", "--allow-principal", "User:alice", *options)


def write(broker: SecureBroker, topic: str, **settings: Any) -> int:
    """The error code of one record."""
    errors: list[int] = []
    sender = Producer(as_alice(broker, **settings))
    sender.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
    assert sender.flush(PATIENCE_S) == 0
    return errors[0]


def test_producing_and_consuming_as_far_as_acls_go(broker: SecureBroker, topic: str) -> None:
    assert write(broker, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(broker, "--producer", "--topic", topic)
    assert write(broker, topic) == 0
    assert write(broker, topic, **{"enable.idempotence": True}) == 0, "who may write somewhere may be idempotent"

    def read(group: str) -> Any:
        reader = Consumer(as_alice(broker, **{"group.id": group, "auto.offset.reset": "earliest"}))
        reader.subscribe([topic])
        try:
            while (found := reader.poll(PATIENCE_S)) is not None and found.error() and found.error().retriable():
                pass
            assert found is not None
            return found.error().code() if found.error() else found.value()
        finally:
            reader.close()

    assert read("g") == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(broker, "--operation", "Read", "--group", "g")
    assert read("g") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(broker, "--consumer", "--topic", topic, "--group", "g")
    assert read("g") == b"v"
    command(broker, "--add", "--deny-principal", "User:alice", "--operation", "Write", "--topic", topic)
    assert write(broker, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_transactions_as_far_as_acls_go(broker: SecureBroker, topic: str) -> None:
    def begin(name: str) -> Producer:
        sender = Producer(as_alice(broker, **{"transactional.id": name}))
        sender.init_transactions(PATIENCE_S)
        sender.begin_transaction()
        return sender

    with pytest.raises(KafkaException) as refused:
        begin(f"x-{topic}")
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(broker, "--producer", "--transactional-id", f"x-{topic}")
    sender, errors = begin(f"x-{topic}"), list[int]()

    def send() -> None:
        sender.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error.code() if error else 0))

    def refused_record() -> None:
        """Where librdkafka has heard of the topic by then it takes no record; otherwise its transaction fails."""
        try:
            send()
        except KafkaException as at_once:
            errors.append(at_once.args[0].code())
        else:
            with pytest.raises(KafkaException):
                sender.commit_transaction(PATIENCE_S)
        sender.abort_transaction(PATIENCE_S)

    refused_record()
    allow(broker, "--producer", "--topic", topic)
    sender = begin(f"x-{topic}")
    send()
    sender.flush(PATIENCE_S)
    command(broker, "--remove", "--force", "--allow-principal", "User:alice", "--producer", "--topic", topic)
    refused_record()
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert errors == [denied, 0, denied]


def test_the_command_says_what_kafka_acls_says(broker: SecureBroker, topic: str, tmp_path: Path) -> None:
    pattern = f"resource `ResourcePattern(resourceType=TOPIC, name={topic}, patternType=PREFIXED)`"
    entry = "(principal=User:alice, host=10.0.0.1, operation=DESCRIBE_CONFIGS, permissionType=DENY)"
    denial = ("--deny-principal", "User:alice", "--deny-host", "10.0.0.1", "--operation", "DescribeConfigs")
    made = command(broker, "--add", *denial, "--topic", topic, "--resource-pattern-type", "prefixed")
    assert pattern in made and entry in made
    listed = command(broker, "--list", "--topic", f"{topic}-x", "--resource-pattern-type", "match")
    assert pattern in listed and entry in listed
    (one,) = json.loads(command(broker, "--list", "--topic", topic, "--resource-pattern-type", "prefixed", "--json"))
    assert (one["resourceName"], one["principal"], one["permissionType"]) == (topic, "User:alice", "DENY")
    asked = CliRunner().invoke(acls, ["--bootstrap-server", broker.open_bootstrap, "--remove", "--json"])
    assert asked.exit_code == 2 and "needs --force" in asked.output
    assert pattern not in command(broker, "--list", "--principal", "User:bob")
    gone = command(broker, "--remove", "--force", "--topic", topic, "--resource-pattern-type", "prefixed")
    assert entry in gone and pattern not in command(broker, "--list")
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{PASSWORDS["alice"]}";\n'
    )
    options = ["--bootstrap-server", broker.bootstrap, "--command-config", str(settings), "--list"]
    refused = CliRunner().invoke(acls, options)
    assert refused.exit_code == 1 and "CLUSTER_AUTHORIZATION_FAILED" in refused.output
