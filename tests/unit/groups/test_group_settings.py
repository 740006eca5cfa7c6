"""The settings of groups, each from the name that Kafka has for it, and as of now."""

from broker.config.broker_config import BrokerConfig
from broker.coordination.groups import ConfiguredGroups


def test_each_setting_has_its_name() -> None:
    values = {
        "group.max.size": 3,
        "tallystick.groups.max.bytes": 5 << 20,
        "group.min.session.timeout.ms": 7,
        "group.max.session.timeout.ms": 11,
        "group.initial.rebalance.delay.ms": 13,
        "offsets.retention.minutes": 17,
        "offsets.retention.check.interval.ms": 19,
        "offset.metadata.max.bytes": 23,
    }
    config = BrokerConfig({name: str(value) for name, value in values.items()})
    settings = ConfiguredGroups(config, lambda: 29, lambda group_id: {})
    assert settings.max_size == 3
    assert settings.max_held_bytes == 5 << 20
    assert (settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (7, 11)
    assert settings.initial_rebalance_delay_ms == 13
    assert settings.offsets_retention_ms == 17 * 60_000
    assert settings.offsets_retention_check_interval_ms == 19
    assert settings.offset_metadata_max_size == 23
    assert settings.max_batch_bytes == 29


def test_a_consumer_group_has_what_it_says_itself_within_what_the_broker_allows() -> None:
    values = {
        "group.consumer.session.timeout.ms": 50_000,
        "group.consumer.max.session.timeout.ms": 55_000,
        "group.consumer.heartbeat.interval.ms": 6_000,
        "group.consumer.assignment.interval.ms": 7,
        "group.consumer.max.size": 11,
        "group.consumer.assignors": "range",
        "group.consumer.migration.policy": "Upgrade",
        "group.consumer.regex.refresh.interval.ms": 13_000,
    }
    own = {
        "a": {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "1"},
        "b": {"consumer.session.timeout.ms": "46000", "consumer.assignment.interval.ms": "3"},
    }
    config = BrokerConfig({name: str(value) for name, value in values.items()})
    settings = ConfiguredGroups(config, lambda: 29, lambda group_id: own.get(group_id, {})).consumer
    assert [settings.session_timeout_ms(group) for group in "abc"] == [55_000, 46_000, 50_000]
    assert [settings.heartbeat_interval_ms(group) for group in "abc"] == [5_000, 6_000, 6_000]
    assert [settings.assignment_interval_ms(group) for group in "abc"] == [7, 3, 7]
    assert (settings.max_size, settings.assignors) == (11, ("range",))
    assert (settings.migration_policy, settings.regex_refresh_interval_ms) == ("upgrade", 13_000)
