"""Users and certificates by the variables of a container, as in Kafka's official image."""

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from broker.config.sources import read_environment
from tallystick.certificates import make_for_development
from tallystick.process import BrokerProcess
from tests.harness.broker import KAFKA
from tests.harness.confluent import wait_until
from tests.harness.proxy import free_port
from tests.harness.secure_broker import secure_broker

COMPOSE = Path(__file__).resolve().parents[2] / "docker" / "compose.sasl.yml"
SECONDS = 20.0
ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f"""
KafkaServer {{ {PLAIN} required user_everywhere="secret"; }};
secure.KafkaServer {{
    // The listener SECURE has users of its own.
    {PLAIN} required
        user_ute="ute's; secret";
}};
"""


def admin(bootstrap: str, name: str, password: str, **more: Any) -> AdminClient:
    login = {"sasl.username": name, "sasl.password": password, "log_level": 0}
    return AdminClient({"bootstrap.servers": bootstrap, **login, **more})


def is_refused(bootstrap: str, name: str, password: str, **more: str) -> None:
    errors: list[KafkaError] = []
    stranger = admin(bootstrap, name, password, **more, error_cb=errors.append)
    wait_until(lambda: (stranger.poll(0.1), errors)[1], "a refusal")
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_the_compose_file_with_users_and_certificates(tmp_path: Path) -> None:
    """Its variables, with other ports; its key, its certificates and its first user from a folder of secrets."""
    certificates = tmp_path / "certs"
    make_for_development(certificates, hosts=["localhost", "broker"], clients=[], days=1)
    (certificates / "first-users").write_text("SCRAM-SHA-512=[name=admin,password=SECRET]\n")
    variables = dict(re.findall(r'^      (KAFKA_\w+): "(.*)"$', COMPOSE.read_text(), re.MULTILINE))
    ports = {"9094": str(free_port()), "19094": str(free_port())}
    variables = {name: re.sub("1?9094", lambda one: ports[one.group()], text) for name, text in variables.items()}
    settings = read_environment(variables, secrets=str(certificates))
    broker = BrokerProcess(tmp_path / "broker", options=["--listeners", settings["listeners"]])
    broker.environment = {
        **{name: text for name, text in variables.items() if not name.endswith(("_FILENAME", "_CREDENTIALS"))},
        "KAFKA_SSL_KEYSTORE_LOCATION": settings["ssl.keystore.location"],
        "KAFKA_TALLYSTICK_ADD_SCRAM": settings["tallystick.add.scram"],
    }
    trusting = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.ca.location": str(certificates / "ca.pem"),
    }
    bootstrap = f"localhost:{ports['9094']}"
    try:
        broker.start()
        known = admin(bootstrap, "admin", "SECRET", **trusting)
        assert known.describe_acls(ANY_ACL).result(SECONDS) == [], "the super user asks, and there are none yet"
        is_refused(bootstrap, "admin", "wrong", **trusting)
    finally:
        broker.close()


def test_users_in_a_login_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`KAFKA_OPTS`, which Java is told by Kafka's scripts."""
    users = tmp_path / "users.jaas"
    users.write_text(USERS)
    named = f"-Djava.security.auth.login.config={users}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS" if KAFKA else "KAFKA_OPTS", named)
    broker = secure_broker(tmp_path / "broker", {"listener.name.secure.sasl.enabled.mechanisms": "PLAIN"})
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    try:
        assert admin(broker.bootstrap, "ute", "ute's; secret", **login).list_topics(timeout=SECONDS).brokers
        is_refused(broker.bootstrap, "ute", "wrong", **login)
        is_refused(broker.bootstrap, "everywhere", "secret", **login)
    finally:
        broker.process.close()
