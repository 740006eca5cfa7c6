"""The settings of a group coordinator as tests have them: Kafka's defaults, but for the initial delay."""

from dataclasses import dataclass


@dataclass(slots=True)
class FixedGroupSettings:
    """Kafka's defaults (but for the initial delay), for tests and callers without a configuration."""

    max_size: int = 2**31 - 1
    max_held_bytes: int = 1 << 28
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_size: int = 4096
    max_batch_bytes: int = 1_048_588
