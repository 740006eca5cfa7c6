"""A topic's effective configuration, resolved once per change and read on the hot path as plain attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from coordinator.cluster.keys.config_types import ConfigValue
from protocol.records.compression import DEFAULT_BOUNDS, Bounds
from storage.log import LogConfig

USUAL_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}
"""Kafka's defaults, which stand for what each library does unasked."""
FOREVER_MS = (1 << 63) - 1


class RecordChecks(Enum):
    """What of a batch a Produce is held to, where its topic asks for no more (decision 0014)."""

    HEADER = "header"
    """What the header says."""
    BOUNDED = "bounded"
    """That compressed batches can be opened, and that there are as many records as it says, where they are few."""
    ALL = "all"
    """That there are as many records as the header says, always."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What partitions of one topic obey now. Kafka's names and defaults; a change makes a new object."""

    log: LogConfig = field(default_factory=LogConfig)
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_level: int | None = None
    """Of that codec; None for its usual one."""
    log_append_time: bool = False
    """message.timestamp.type=LogAppendTime."""
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    flush_messages: int = (1 << 63) - 1
    """1: this topic is fsynced before it is acknowledged even in page-cache mode."""
    record_checks: RecordChecks = RecordChecks.BOUNDED

    leaves_closed: bool = field(init=False)
    """Whether uncompressed batches stay as they are, unless they come from the future: what the hot path asks."""

    def __post_init__(self) -> None:
        looks_inside = self.log.cleanup_compact or self.timestamp_before_max_ms != FOREVER_MS or self.log_append_time
        leaves_closed = not (looks_inside or self.recompresses or self.record_checks is RecordChecks.ALL)
        object.__setattr__(self, "leaves_closed", leaves_closed)

    @property
    def recompresses(self) -> bool:
        return self.compression_type != "producer"

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, ConfigValue],
        *,
        record_checks: RecordChecks = RecordChecks.BOUNDED,
        decompression: Bounds = DEFAULT_BOUNDS,
    ) -> "TopicConfig":
        """From every topic key with the value that holds for it, synonyms already resolved."""
        return cls(
            log=_log_config(values, decompression),
            record_checks=record_checks,
            max_message_bytes=_whole(values, "max.message.bytes"),
            compression_type=str(values["compression.type"]),
            compression_level=_level(values, str(values["compression.type"])),
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            timestamp_before_max_ms=_whole(values, "message.timestamp.before.max.ms"),
            timestamp_after_max_ms=_whole(values, "message.timestamp.after.max.ms"),
            min_insync_replicas=_whole(values, "min.insync.replicas"),
            flush_messages=_whole(values, "flush.messages"),
        )


def _log_config(values: Mapping[str, ConfigValue], decompression: Bounds) -> LogConfig:
    policy = values["cleanup.policy"]
    ratio = values["min.cleanable.dirty.ratio"]
    assert isinstance(policy, tuple) and isinstance(ratio, int | float)
    return LogConfig(
        segment_bytes=_whole(values, "segment.bytes"),
        segment_ms=_whole(values, "segment.ms"),
        segment_jitter_ms=_whole(values, "segment.jitter.ms"),
        index_interval_bytes=_whole(values, "index.interval.bytes"),
        segment_index_bytes=_whole(values, "segment.index.bytes"),
        retention_ms=_whole(values, "retention.ms"),
        retention_bytes=_whole(values, "retention.bytes"),
        file_delete_delay_ms=_whole(values, "file.delete.delay.ms"),
        cleanup_delete="delete" in policy,
        cleanup_compact="compact" in policy,
        min_cleanable_dirty_ratio=float(ratio),
        min_compaction_lag_ms=_whole(values, "min.compaction.lag.ms"),
        max_compaction_lag_ms=_whole(values, "max.compaction.lag.ms"),
        delete_retention_ms=_whole(values, "delete.retention.ms"),
        decompression=decompression,
    )


def _level(values: Mapping[str, ConfigValue], codec: str) -> int | None:
    usual = USUAL_LEVELS.get(codec)
    if usual is None:
        return None
    level = _whole(values, f"compression.{codec}.level")
    return None if level == usual else level


def _whole(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value
