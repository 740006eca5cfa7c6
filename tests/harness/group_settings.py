"""The settings of a group coordinator as tests have them: Kafka's defaults, but for the initial delay."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class FixedTimes:
    """What groups of all new protocols have: Kafka's defaults."""

    session_ms: int = 45_000
    heartbeat_ms: int = 5_000
    assignment_ms: int = 1_000

    def session_timeout_ms(self, group_id: str) -> int:
        return self.session_ms

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self.heartbeat_ms

    def assignment_interval_ms(self, group_id: str) -> int:
        return self.assignment_ms


@dataclass(slots=True)
class FixedConsumerSettings(FixedTimes):
    """Of groups of the consumer protocol: Kafka's defaults."""

    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000


@dataclass(slots=True)
class FixedStreamsSettings(FixedTimes):
    """Of streams groups: Kafka's defaults, but for the initial delay."""

    delay_ms: int = 0
    standbys: int = 0
    max_size: int = 2**31 - 1

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        return self.delay_ms

    def standby_replicas(self, group_id: str) -> int:
        return self.standbys


@dataclass(slots=True)
class FixedShareSettings(FixedTimes):
    """Of share groups: Kafka's defaults."""

    max_size: int = 200
    initialize_retry_interval_ms: int = 30_000


@dataclass(slots=True)
class FixedGroupSettings:
    """Kafka's defaults (but for the initial delay), for tests and callers without a configuration."""

    consumer: FixedConsumerSettings = field(default_factory=FixedConsumerSettings)
    streams: FixedStreamsSettings = field(default_factory=FixedStreamsSettings)
    share: FixedShareSettings = field(default_factory=FixedShareSettings)
    max_size: int = 2**31 - 1
    max_held_bytes: int = 1 << 28
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_size: int = 4096
    max_batch_bytes: int = 1_048_588
