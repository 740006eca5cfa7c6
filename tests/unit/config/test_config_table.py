"""The table of keys: each is described, each default is legal, each synonym exists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.broker_config import BrokerConfig
from broker.config.topic_config import TopicConfig
from coordinator.cluster.keys.config_keys import BROKER_KEYS, TOPIC_KEYS, SynonymValue, check_group_values
from coordinator.cluster.keys.config_types import ConfigKey, ConfigSource, ConfigType, InvalidConfig, parse, render
from coordinator.cluster.keys.share_keys import duration_ms

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


def test_of_the_defaults_behind_a_topic_s_setting_that_of_the_first_is_named() -> None:
    layers = BrokerConfig({"log.retention.minutes": "1"}).layers
    by_default = SynonymValue("log.segment.bytes", "1073741824", ConfigSource.DEFAULT)
    assert layers.topic(TOPIC_KEYS["segment.bytes"], {}).synonyms == (by_default,)
    said = SynonymValue("log.retention.minutes", "1", ConfigSource.STATIC_BROKER)
    found = layers.topic(TOPIC_KEYS["retention.ms"], {})
    assert (found.value, found.synonyms) == ("60000", (said,)), "not the 168 hours"


@pytest.mark.parametrize(("word", "is_one"), [("upgrade", True), ("UpGrade", True), ("up", False), ("", False)])
def test_words_in_any_case(word: str, is_one: bool) -> None:
    key = BROKER_KEYS["group.consumer.migration.policy"]
    if is_one:
        assert key.parse(word) == word
    else:
        with pytest.raises(InvalidConfig, match="UPGRADE"):
            key.parse(word)


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
    levels = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}
    for key in TOPIC_KEYS.values():
        if not key.effective or key.name == "remote.storage.enable":
            continue
        beside = {"compression.type": levels[key.name]} if key.name in levels else {}
        value = "1" if beside else words.get(key.name) or other[key.type]
        set_alone = BrokerConfig().topic_config(beside)
        assert BrokerConfig().topic_config({key.name: value, **beside}) != set_alone, key.name


def test_a_level_is_of_the_codec_that_the_broker_uses() -> None:
    def level(**settings: str) -> int | None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return BrokerConfig().topic_config(named).compression_level

    three = {"compression_gzip_level": "1", "compression_lz4_level": "12", "compression_zstd_level": "-7"}
    codecs = ("gzip", "lz4", "zstd", "snappy", "producer", "uncompressed")
    found = {codec: level(compression_type=codec, **three) for codec in codecs}
    assert found == {"gzip": 1, "lz4": 12, "zstd": -7, "snappy": None, "producer": None, "uncompressed": None}
    assert {level(compression_type=codec) for codec in codecs} == {None}


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


@pytest.mark.parametrize("text", ["", "1_0", "٣", "0.5٣", "1,5"])
def test_fractions_java_refuses_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="Not a number of type DOUBLE"):
        parse("key", ConfigType.DOUBLE, text)


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_a_broker_does_not_drop_everything_at_once(name: str) -> None:
    key = BROKER_KEYS[name]
    assert [key.parse(text) for text in ("-1", "1")] == [-1, 1]
    for text in ("0", "-2"):
        with pytest.raises(InvalidConfig, match=rf"{name}: Value must be unlimited \(-1\) or at least 1"):
            key.parse(text)
    assert TOPIC_KEYS["retention.ms"].parse("0") == 0


@given(st.lists(st.sampled_from(("compact", "delete", " ", "")), max_size=4))
def test_lists_are_trimmed_and_shown_as_they_are_stored(words: list[str]) -> None:
    value = TOPIC_KEYS["cleanup.policy"].parse(",".join(words))
    assert render(value) == ",".join(word for word in words if word.strip())


@pytest.mark.parametrize("kind", [ConfigType.STRING, ConfigType.PASSWORD])
def test_words_are_trimmed_as_in_kafka(kind: ConfigType) -> None:
    assert parse("key", kind, " a b ") == "a b"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("P2D", 172_800_000),
        ("+P1D", 86_400_000),
        ("P-1D", None),
        ("P1DT-0.5S", 86_399_500),
        ("PT1,25S", 1_250),
        ("PT1.S", 1_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt-1h2h", None),
        ("PT2H-1M", 7_140_000),
        ("-PT-1S", 1_000),
        ("PT-1S", None),
        ("PT0.0015S", 1),
        ("-PT0S", 0),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1h", None),
        ("P" + "9" * 5_000 + "D", None),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int | None) -> None:
    assert duration_ms(text) == milliseconds


def test_the_settings_of_a_share_group_are_within_what_the_broker_allows() -> None:
    layers = BrokerConfig().layers
    check_group_values(
        {"share.auto.offset.reset": "by_duration:PT1H", "share.isolation.level": "read_committed"}, layers
    )
    for name, value, problem in (
        ("share.session.timeout.ms", "44999", "must be greater than or equal to group.share.min.session.timeout.ms"),
        ("share.delivery.count.limit", "11", "must be less than or equal to group.share.max.delivery.count.limit"),
        ("share.record.lock.duration.ms", "999", "Value must be at least 1000"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "The value must be either 'earliest', 'latest' or"),
        ("share.isolation.level", "READ_COMMITTED", "String must be one of: read_committed, read_uncommitted"),
        ("share.assignor.offload.enable", "true", "Unknown group config name: share.assignor.offload.enable"),
    ):
        with pytest.raises(InvalidConfig) as refused:
            check_group_values({name: value}, layers)
        assert problem in str(refused.value)
