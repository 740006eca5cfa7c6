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
    settings = ConfiguredGroups(BrokerConfig({name: str(value) for name, value in values.items()}), lambda: 29)
    assert settings.max_size == 3
    assert settings.max_held_bytes == 5 << 20
    assert (settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (7, 11)
    assert settings.initial_rebalance_delay_ms == 13
    assert settings.offsets_retention_ms == 17 * 60_000
    assert settings.offsets_retention_check_interval_ms == 19
    assert settings.offset_metadata_max_size == 23
    assert settings.max_batch_bytes == 29
