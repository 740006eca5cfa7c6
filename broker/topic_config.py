"""A topic's effective configuration, resolved once per change and read on the hot path as plain attributes."""

from dataclasses import dataclass, field

from storage.log import LogConfig


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What partitions of one topic obey now. Kafka's names and defaults; a change makes a new object."""

    log: LogConfig = field(default_factory=LogConfig)
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    log_append_time: bool = False
    """message.timestamp.type=LogAppendTime."""
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    flush_messages: int = (1 << 63) - 1
    """1: this topic is fsynced before it is acknowledged even in page-cache mode."""
