"""The settings a group coordinator reads, at the moment it needs them: a dynamic change takes effect at once."""

from dataclasses import dataclass
from typing import Protocol


class GroupSettings(Protocol):
    """What `broker` supplies from its configuration. Kafka's key is named in each docstring."""

    @property
    def max_size(self) -> int:
        """`group.max.size`."""

    @property
    def min_session_timeout_ms(self) -> int:
        """`group.min.session.timeout.ms`."""

    @property
    def max_session_timeout_ms(self) -> int:
        """`group.max.session.timeout.ms`."""

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """`group.initial.rebalance.delay.ms`; 0 here, for one node has no herd to wait for."""

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes`."""

    @property
    def offsets_retention_check_interval_ms(self) -> int:
        """`offsets.retention.check.interval.ms`."""

    @property
    def offset_metadata_max_size(self) -> int:
        """`offset.metadata.max.bytes`."""


@dataclass(slots=True)
class FixedGroupSettings:
    """Kafka's defaults (but for the initial delay), for tests and for whoever needs no configuration."""

    max_size: int = 2**31 - 1
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_size: int = 4096
