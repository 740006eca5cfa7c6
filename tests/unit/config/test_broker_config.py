"""The broker's configuration: checked in plain sentences, typed, changed while running."""

import pytest

from broker.config.broker_config import BrokerConfig, ConfigError
from coordinator.cluster.keys.config_types import ConfigSource

SEEN = tuple[str | None, ConfigSource]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num.partitions": "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT."),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1."),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable: Expected value to be either true or false."),
        ({"tallystick.durability": "perhaps"}, "tallystick.durability: String must be one of: fsync, page-cache."),
        ({"log.dirs": "a,b"}, "log.dirs: exactly one data folder is supported."),
        (
            {"tallystick.store": "postgresql://h/d", "tallystick.repair": "t-0"},
            "tallystick.repair: what lies in a store",
        ),
        ({"tallystick.nodes": "17"}, "Invalid value 17 for configuration tallystick.nodes"),
        ({"tallystick.nodes": "3", "log.dirs": "data"}, "keep everything in memory, and have no data folder."),
        ({"tallystick.nodes": "3", "log.dir": "data"}, "keep everything in memory, and have no data folder."),
        (
            {"tallystick.nodes": "3", "tallystick.store": "postgresql://h/d"},
            "nodes over a store are processes of",
        ),
        ({"tallystick.nodes": "3", "tallystick.http": "127.0.0.1:0"}, "have neither an HTTP side nor a console"),
        ({"tallystick.nodes": "3", "tallystick.console": "127.0.0.1:0"}, "have neither an HTTP side nor a console"),
        ({"listeners": "nonsense"}, "listeners: 'nonsense' is not a listener"),
        ({"listeners": "MINE://:9093"}, "listener.security.protocol.map says nothing of the listener MINE."),
        ({"advertised.listeners": "OTHER://h:1"}, "advertised.listeners: there is no listener called OTHER."),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "is no address a client can connect to."),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "is not of the form NAME:PROTOCOL."),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "there is no security protocol 'TLS'."),
        ({"listener.name.plaintext.max.connections": "x"}, "for configuration listener.name.plaintext.max.connections"),
    ],
)
def test_unusable_values_are_refused_with_the_key_named(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(settings)
    assert sentence in str(refused.value)


def test_a_kraft_properties_file_of_kafka_is_understood() -> None:
    """The file of Kafka's quick start: a controller listener is not opened, thread pools are passed over, loudly."""
    config = BrokerConfig.from_sources(
        properties="""
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@127.0.0.1:19093
listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093
advertised.listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.io.threads=8
log.dirs=/tmp/kraft-combined-logs
ssl.keystore.type=JKS
ssl.provider=SunJSSE
no.such.thing=1
"""
    )
    assert config.node_id == 7 and config.data_folder == "/tmp/kraft-combined-logs"
    assert [str(one) for one in config.listeners] == ["127.0.0.1:19092"]
    assert [one.listener for one in config.advertised_listeners] == ["PLAINTEXT"]
    warned = {sentence.split()[0] for sentence in config.warnings}
    assert warned == {"controller.quorum.voters", "num.io.threads", "ssl.provider", "no.such.thing"}


def test_defaults_are_kafka_s_but_for_what_one_node_changes() -> None:
    config = BrokerConfig()
    assert config.get_int("group.initial.rebalance.delay.ms") == 0
    assert config.get_int("offsets.topic.replication.factor") == 1
    assert config.get_int("transaction.max.timeout.ms") == 900_000
    assert config.get_int("offsets.topic.num.partitions") == 50
    assert not config.page_cache and not config.in_memory
    assert config.rack is None and config.advertised_listeners == ()


def test_an_empty_rack_is_none() -> None:
    """What a container is told whose machine has no such label."""
    assert BrokerConfig({"broker.rack": ""}).rack is None
    assert BrokerConfig({"broker.rack": "zone-a"}).rack == "zone-a"


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert BrokerConfig({"broker.id": "5"}).node_id == 5
    assert BrokerConfig({"broker.id": "5", "node.id": "6"}).node_id == 6


def seen(config: BrokerConfig, name: str) -> SEEN:
    resolved = config.resolve(name)
    return resolved.value, resolved.source


def test_a_dynamic_change_notifies_subscribers_once() -> None:
    config = BrokerConfig({"message.max.bytes": "100"})
    changes: list[frozenset[str]] = []
    config.subscribe(changes.append)
    config.apply_dynamic(cluster_wide={"message.max.bytes": "200"}, own={})
    assert seen(config, "message.max.bytes") == ("200", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    config.apply_dynamic(cluster_wide={"message.max.bytes": "200"}, own={"message.max.bytes": "300"})
    assert seen(config, "message.max.bytes") == ("300", ConfigSource.DYNAMIC_BROKER)
    config.apply_dynamic(cluster_wide={"message.max.bytes": "999"}, own={"message.max.bytes": "300"})
    config.apply_dynamic(cluster_wide={}, own={})
    assert seen(config, "message.max.bytes") == ("100", ConfigSource.STATIC_BROKER)
    assert changes == [frozenset({"message.max.bytes"})] * 3, "a change that changes nothing is not told"


def test_what_cannot_change_while_running_does_not() -> None:
    """Records of another version, or of a key that became read-only, do no harm."""
    config = BrokerConfig()
    config.apply_dynamic(
        cluster_wide={"num.partitions": "9", "no.such.key": "1", "message.max.bytes": "nonsense"},
        own={"max.connections": "0"},
    )
    assert config.get_int("max.connections") > 0, "a log of an earlier version may lock everybody out"
    assert config.get_int("num.partitions") == 1 and config.get_int("message.max.bytes") == 1_048_588


def test_the_durability_mode_is_a_word() -> None:
    assert BrokerConfig({"tallystick.durability": "page-cache"}).page_cache


def test_a_listener_has_settings_of_its_own_before_those_of_all() -> None:
    config = BrokerConfig({"max.connections": "10", "listener.name.inside.max.connections": "5", "log.dirs": "a"})
    assert config.of_listener("INSIDE", "max.connections") == 5
    assert config.of_listener("OUTSIDE", "max.connections") == config.get_int("max.connections") == 10
    told: list[frozenset[str]] = []
    config.subscribe(told.append)
    config.apply_dynamic(cluster_wide={"max.connections": "20"}, own={"listener.name.outside.max.connections": "7"})
    assert told == [frozenset(("max.connections", "listener.name.outside.max.connections"))]
    assert [config.of_listener(one, "max.connections") for one in ("INSIDE", "OUTSIDE", "THIRD")] == [5, 7, 20]
    config.apply_dynamic(cluster_wide={}, own={})
    assert told[1] == told[0]
    assert config.of_listener("OUTSIDE", "max.connections") == 10


def test_a_mechanism_has_settings_of_its_own_before_those_of_its_listener() -> None:
    key = "connections.max.reauth.ms"
    settings = {key: "1", f"listener.name.mine.{key}": "2", f"listener.name.mine.scram-sha-256.{key}": "3"}
    config = BrokerConfig(settings)
    assert config.of_listener("MINE", key, "SCRAM-SHA-256") == 3
    assert config.of_listener("MINE", key, "PLAIN") == config.of_listener("MINE", key) == 2
    assert config.of_listener("OTHER", key, "PLAIN") == 1
    assert [one.name for one in config.settings_of_listeners()] == sorted(settings)[1:]


def test_what_cannot_be_said_of_one_listener_is_passed_over_with_a_warning() -> None:
    config = BrokerConfig({"listener.name.mine.log.dirs": "elsewhere", "listener.name.mine": "x"})
    assert config.data_folder == "./data" and config.settings_of_listeners() == []
    assert {warning.split()[0] for warning in config.warnings} == {"listener.name.mine.log.dirs", "listener.name.mine"}


def test_several_nodes_have_the_next_ids_and_ports_and_are_not_found_out_by_their_silence() -> None:
    told = {
        "tallystick.nodes": "3",
        "node.id": "7",
        "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:0",
        "advertised.listeners": "PLAINTEXT://kafka:19092",
        "broker.session.timeout.ms": "50",
    }
    config = BrokerConfig(told)
    assert config.in_memory and not config.has_files
    of_nodes = [config.of_node(number) for number in range(3)]
    assert [one.node_id for one in of_nodes] == [7, 8, 9]
    assert [[(one.listener, one.host, one.port) for one in node.listeners] for node in of_nodes] == [
        [("PLAINTEXT", "127.0.0.1", 9092 + number), ("SSL", "::1", 0)] for number in range(3)
    ]
    assert [[(one.host, one.port) for one in node.advertised_listeners] for node in of_nodes] == [
        [("kafka", 19092 + number)] for number in range(3)
    ]
    assert {node.get_int("broker.session.timeout.ms") for node in of_nodes} == {(1 << 31) - 1}
