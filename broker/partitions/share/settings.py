"""What is set for the share partitions of a group."""

from dataclasses import dataclass
from enum import Enum


class StartAt(Enum):
    """`share.auto.offset.reset`: where a group begins that has read nothing of a partition."""

    LATEST = "latest"
    EARLIEST = "earliest"
    TIMESTAMP = "by_duration"


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The settings of one group, its own ones over those of the broker.

    `back_ms`: with `StartAt.TIMESTAMP`, how far back from now the group begins.
    """

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    read_committed: bool = False
    renew_allowed: bool = True
    start_at: StartAt = StartAt.LATEST
    back_ms: int = 0
