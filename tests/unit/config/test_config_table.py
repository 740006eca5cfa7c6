"""The table of keys: each is described, each default is legal, each synonym exists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.broker_config import BrokerConfig
from broker.config.topic_config import TopicConfig
from coordinator.cluster.keys.config_keys import BROKER_KEYS, TOPIC_KEYS
from coordinator.cluster.keys.config_types import ConfigKey, ConfigType, InvalidConfig, parse, render

ALL_KEYS = [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: key.name)
def test_every_key_is_described_and_has_a_legal_default(key: ConfigKey) -> None:
    assert key.documentation.endswith(".") and "  " not in key.documentation
    if key.default is not None:
        key.parse(key.default)
    for synonym in key.synonyms:
        assert BROKER_KEYS[synonym.name].type is key.type or synonym.factor > 1 or key.type is ConfigType.LONG


def test_a_topic_without_settings_obeys_the_broker_s_defaults() -> None:
    assert BrokerConfig().topic_config({}) == TopicConfig()


def test_defaults_of_topics_agree_with_the_broker_keys_behind_them() -> None:
    layers = BrokerConfig().layers
    for key in TOPIC_KEYS.values():
        assert layers.topic(key, {}).value == key.default, key.name


def test_every_topic_setting_arrives_where_it_is_used() -> None:
    """A key that has an effect changes what partitions obey; one that has none says so."""
    other = {
        ConfigType.BOOLEAN: "true",
        ConfigType.INT: "2000000",
        ConfigType.LONG: "2000000",
        ConfigType.DOUBLE: "0.25",
        ConfigType.LIST: "compact",
    }
    words = {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"}
    not_of_partitions = {"remote.storage.enable", "compression.gzip.level", "compression.lz4.level"}
    not_of_partitions.add("compression.zstd.level")
    for key in TOPIC_KEYS.values():
        if not key.effective or key.name in not_of_partitions:
            continue
        value = words.get(key.name) or other[key.type]
        assert BrokerConfig().topic_config({key.name: value}) != TopicConfig(), key.name


@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_is_milliseconds_before_minutes_before_hours(settings: dict[str, str], expected_ms: int) -> None:
    config = BrokerConfig(settings)
    assert config.topic_config({}).log.retention_ms == expected_ms
    assert config.get_int("log.retention.ms") == expected_ms
    assert config.topic_config({"retention.ms": "5"}).log.retention_ms == 5


@pytest.mark.parametrize(("level", "legal"), [("-1", True), ("0", False), ("1", True), ("9", True), ("10", False)])
def test_gzip_has_no_level_0(level: str, legal: bool) -> None:
    key = TOPIC_KEYS["compression.gzip.level"]
    if legal:
        assert key.parse(level) == int(level)
    else:
        with pytest.raises(InvalidConfig):
            key.parse(level)


NUMBERS = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG)


@given(st.sampled_from(NUMBERS), st.integers(-(1 << 70), 1 << 70))
def test_numbers_are_taken_exactly_where_they_fit(kind: ConfigType, number: int) -> None:
    bits = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}[kind]
    if -(1 << bits) <= number < 1 << bits:
        assert parse("key", kind, f" {number} ") == number
    else:
        with pytest.raises(InvalidConfig, match=f"Not a number of type {kind.name}"):
            parse("key", kind, str(number))


@pytest.mark.parametrize("text", ["", "1_000", "٣", "1.0", "0x10", "--1", "+", "1e3"])
def test_numbers_java_refuses_are_refused(text: str) -> None:
    for kind in NUMBERS:
        with pytest.raises(InvalidConfig):
            parse("key", kind, text)


def test_a_fraction_is_a_number() -> None:
    assert parse("key", ConfigType.DOUBLE, "0.25") == 0.25
    with pytest.raises(InvalidConfig) as refused:
        parse("key", ConfigType.DOUBLE, "a half")
    assert str(refused.value) == "Invalid value a half for configuration key: Not a number of type DOUBLE"


@given(st.lists(st.sampled_from(("compact", "delete", " ", "")), max_size=4))
def test_lists_are_trimmed_and_shown_as_they_are_stored(words: list[str]) -> None:
    value = TOPIC_KEYS["cleanup.policy"].parse(",".join(words))
    assert render(value) == ",".join(word for word in words if word.strip())


@pytest.mark.parametrize("kind", [ConfigType.STRING, ConfigType.PASSWORD])
def test_words_are_trimmed_as_in_kafka(kind: ConfigType) -> None:
    assert parse("key", kind, " a b ") == "a b"
