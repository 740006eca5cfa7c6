"""Where the state of share partitions is kept, as who serves their records sees it: Kafka's `Persister` (KIP-932)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from protocol.errors import ErrorCode

NO_START_OFFSET = -1
"""Nobody has chosen yet where to start."""
KEPT_STATES = (0, 2, 4)
"""Available, acknowledged, archived. Who has acquired a record is not kept."""


@dataclass(frozen=True, slots=True)
class StateBatch:
    """Records of `first_offset` to `last_offset`, both included, that are in one state of `KEPT_STATES`.

    `delivery_count`: how often they were handed out.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What is kept of one share partition. `start_offset` may be `NO_START_OFFSET`;
    `delivery_complete_count`, KIP-1226, is -1 where it is not known; `batches` are in the order of offsets."""

    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Persister(Protocol):
    """Reads and writes what is kept of share partitions. Both wait until it is on the disk, and answer an error that
    the protocol expects: FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST."""

    async def read_state(
        self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> PartitionState | ErrorCode:
        """What is kept; a leader epoch that is newer than the one kept takes its place. INVALID_REQUEST where nobody
        has initialised the share partition."""
        ...

    async def write_state(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        """Keep `batches` over what was kept of their offsets. What lies before `start_offset` is dropped; a
        `start_offset` of -1 leaves it where it was."""
        ...
