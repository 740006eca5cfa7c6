"""Users of listeners from a JAAS file."""

from pathlib import Path

import pytest

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.config.login_file import login_settings

SECURITY = "org.apache.kafka.common.security"
PLAIN, SCRAM = f"{SECURITY}.plain.PlainLoginModule", f"{SECURITY}.scram.ScramLoginModule"
TEXT = f"""
KafkaServer {{ {PLAIN} required user_ute="geheim"; {SCRAM} required; some.Other required; {PLAIN} required; }};
outside.KafkaServer {{ {SECURITY}.oauthbearer.OAuthBearerLoginModule required; }};
"""


def test_each_listener_has_its_own_section_or_that_of_all() -> None:
    prefix = "listener.name.inside"
    assert login_settings(TEXT, ["INSIDE", "OUTSIDE"]) == {
        f"{prefix}.plain.sasl.jaas.config": f'"{PLAIN}" required "user_ute"="geheim";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": f'"{SCRAM}" required;',
        f"{prefix}.scram-sha-512.sasl.jaas.config": f'"{SCRAM}" required;',
        "listener.name.outside.oauthbearer.sasl.jaas.config": (
            f'"{SECURITY}.oauthbearer.OAuthBearerLoginModule" required;'
        ),
    }
    assert login_settings("KafkaClient {};", ["INSIDE"]) == {}


def test_what_settings_say_outweighs_the_file(tmp_path: Path) -> None:
    path = tmp_path / "users.jaas"
    path.write_text(TEXT)
    environment = {
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={path}",
        "KAFKA_LISTENERS": "A://:1,B://:2,OPEN://:3",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:SASL_SSL,B:SASL_PLAINTEXT,OPEN:PLAINTEXT",
        "KAFKA_LISTENER_NAME_B_PLAIN_SASL_JAAS_CONFIG": f"{PLAIN} required user_b=b;",
    }
    config = BrokerConfig.from_sources(environment=environment, flags={"num.partitions": "7"})
    assert "user_ute" in str(config.of_listener("A", "sasl.jaas.config", "PLAIN"))
    assert "user_b" in str(config.of_listener("B", "sasl.jaas.config", "PLAIN"))
    assert config.of_listener("OPEN", "sasl.jaas.config", "PLAIN") is None
    assert config.get_int("num.partitions") == 7


def test_a_file_that_cannot_be_used_is_no_matter_where_nobody_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "users.jaas"
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={path}"}
    BrokerConfig.from_sources(environment=environment)
    guarded = {**environment, "KAFKA_LISTENERS": "SASL_PLAINTEXT://:1"}
    with pytest.raises(ConfigError, match="cannot be read"):
        BrokerConfig.from_sources(environment=guarded)
    path.write_text("KafkaServer { user=geheim")
    with pytest.raises(ConfigError, match=r"^java\.security\.auth\.login\.config: ") as told:
        BrokerConfig.from_sources(environment=guarded)
    assert "geheim" not in str(told.value)
