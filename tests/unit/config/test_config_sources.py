"""Where settings come from: a file, the environment, the command line; the higher outweighs the lower."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.config.sources import key_of_variable, read_environment, read_file, read_login_file, read_settings
from broker.security.sasl.first_users import read_first_users
from coordinator.cluster.keys.config_types import ConfigSource


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = "\n".join(
        (
            "# a comment",
            "! another",
            "",
            "num.partitions=3",
            "  log.dirs : /tmp/with space ",
            "broker.rack r\\u00e9",
            "listeners=PLAINTEXT://a:1,\\",
            "    OUTSIDE://b:2",
            "log.cleanup.policy",
            "a\\=b=c=d",
            "node.id=1",
            "node.id=2",
        )
    )
    assert read_file(text, where="file") == {
        "num.partitions": "3",
        "log.dirs": "/tmp/with space ",
        "broker.rack": "ré",
        "listeners": "PLAINTEXT://a:1,OUTSIDE://b:2",
        "log.cleanup.policy": "",
        "a=b": "c=d",
        "node.id": "2",
    }
    with pytest.raises(ConfigError, match=r"server\.properties, line 2"):
        read_file("a=b\nc=\\u00zz", where="server.properties")


@given(st.dictionaries(st.from_regex(r"\A[a-z][a-z.]{0,20}\Z"), st.text("abc =:#!\\\té", max_size=20), max_size=5))
def test_what_is_escaped_as_java_escapes_comes_back(values: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join("\\" + one if one in "\\ =:#!" else "\\t" if one == "\t" else one for one in text)

    text = "".join(f"{key}={escaped(value)}\n" for key, value in values.items())
    assert read_file(text, where="file") == values


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_A_B__C___D", "a.b_c-d"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG", "listener.name.sasl_ssl.plain.sasl.jaas.config"),
        (
            "KAFKA_LISTENER_NAME_OUTSIDE_SCRAM___SHA___512_CONNECTIONS_MAX_REAUTH_MS",
            "listener.name.outside.scram-sha-512.connections.max.reauth.ms",
        ),
    ],
)
def test_variables_are_named_by_the_official_image_s_rules(variable: str, key: str) -> None:
    assert key_of_variable(variable) == key


def test_variables_about_the_java_process_are_no_settings() -> None:
    environment = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_NUM_PARTITIONS": "3", "PATH": "/bin", "CLUSTER_ID": "abc"}
    assert read_environment(environment) == {"num.partitions": "3", "cluster.id": "abc"}


def test_a_setting_typed_wrong_on_the_command_line_is_refused() -> None:
    assert read_settings(["num.partitions=3", "broker.rack=a=b"]) == {"num.partitions": "3", "broker.rack": "a=b"}
    with pytest.raises(ConfigError, match=r"There is no setting called 'num\.partition'"):
        read_settings(["num.partition=3"])
    with pytest.raises(ConfigError, match="key=value"):
        read_settings(["num.partitions"])


LAYERS = ("file", "environment", "settings", "flags")


@given(st.sets(st.sampled_from(LAYERS)))
def test_the_highest_layer_holds(said: set[str]) -> None:
    """defaults < file < environment < --set < flags."""
    config = BrokerConfig.from_sources(
        properties="num.partitions=10" if "file" in said else None,
        environment={"KAFKA_NUM_PARTITIONS": "11"} if "environment" in said else {},
        settings=["num.partitions=12"] if "settings" in said else [],
        flags={"num.partitions": "13"} if "flags" in said else {},
    )
    highest = max((LAYERS.index(one) + 10 for one in said), default=1)
    assert config.get_int("num.partitions") == highest
    assert config.resolve("num.partitions").source is (ConfigSource.STATIC_BROKER if said else ConfigSource.DEFAULT)


def test_key_stores_and_passwords_lie_where_the_official_image_has_them(tmp_path: Path) -> None:
    (tmp_path / "key-password").write_text("geheim\n")
    environment = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "key-password",
        "KAFKA_SSL_KEY_CREDENTIALS": "key-password",
        "KAFKA_SSL_CLIENT_AUTH": "required",
    }
    assert read_environment(environment, secrets=str(tmp_path)) == {
        "ssl.keystore.location": f"{tmp_path}/broker.p12",
        "ssl.keystore.password": "geheim",
        "ssl.key.password": "geheim",
        "ssl.client.auth": "required",
    }
    with pytest.raises(ConfigError, match="missing cannot be read") as refused:
        read_environment({"KAFKA_SSL_KEY_CREDENTIALS": "missing"}, secrets=str(tmp_path))
    assert "geheim" not in str(refused.value)


def test_first_users_may_lie_beside_them(tmp_path: Path) -> None:
    users = "SCRAM-SHA-256=[name=ute,password=geheim]\nSCRAM-SHA-512=[name=uwe,password=auch]"
    (tmp_path / "first-users").write_text(users + "\n")
    read = read_environment({"KAFKA_TALLYSTICK_ADD_SCRAM_CREDENTIALS": "first-users"}, secrets=str(tmp_path))
    assert read == {"tallystick.add.scram": users}
    assert [one.name for one in read_first_users(users)] == ["ute", "uwe"]


LOGIN_FILE = "-Djava.security.auth.login.config="


@pytest.mark.parametrize("before", ["", "-Xmx1g ", "-Dother=1\t"])
@pytest.mark.parametrize("named", ["", "=", "file:", "file://"])
def test_a_file_of_users_is_named_among_the_options_of_java(tmp_path: Path, before: str, named: str) -> None:
    path = tmp_path / "users.jaas"
    environment = {"KAFKA_OPTS": f"{before}{LOGIN_FILE}{named}{path} -Dafter=1"}
    with pytest.raises(ConfigError, match=r"KAFKA_OPTS: .*users\.jaas cannot be read"):
        read_login_file(environment)
    path.write_text("KafkaServer {};")
    assert read_login_file(environment) == "KafkaServer {};"
    assert read_environment(environment) == {}


def test_other_options_of_java_name_no_file_of_users() -> None:
    assert read_login_file({}) is None
    assert read_login_file({"KAFKA_OPTS": f"-Xmx1g -Dx{LOGIN_FILE}/nowhere"}) is None
