"""What is kept of one share partition, and the records that say so. Kafka's own formats."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from coordinator.machine import Record
from coordinator.share_state.batches import combined
from coordinator.share_state.port import StateBatch
from coordinator.share_state.records import (
    KeptBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from protocol.codec import read_key, read_version, read_versioned, versioned, versioned_key

SNAPSHOT, UPDATE = 0, 1
"""The types of records; others are passed over (KIP-915)."""
UNCHANGED = -1
"""A start offset or leader epoch that stays as it was."""
UNKNOWN_COUNT = -1


class ShareKey(NamedTuple):
    """A share partition: a partition of a topic as a group shares it."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class Write:
    """A change to what is kept. `leader_epoch` and `start_offset` may be `UNCHANGED`."""

    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What the log says of a share partition. Times are those of its last snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_ms: int
    write_ms: int
    updates: int = 0
    """Since its last snapshot."""

    def after(self, write: Write) -> "Kept":
        """With a change over it. The state epoch is what the partition was initialised with, and within one the start
        only moves on: a change that is late, which its sender had given up, takes nothing back."""
        start = max(self.start_offset, write.start_offset)
        return replace(
            self,
            leader_epoch=self.leader_epoch if write.leader_epoch == UNCHANGED else write.leader_epoch,
            start_offset=start,
            delivery_complete_count=write.delivery_complete_count,
            batches=combined((*self.batches, *write.batches), start),
            updates=self.updates + 1,
        )


def key_of(key: bytes) -> ShareKey | None:
    """Which share partition a record is about; None for types that we do not know. Raises `ProtocolError`."""
    kind = read_version(key)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    found = read_key(ShareSnapshotKey, key)  # both have the same fields
    return ShareKey(found.group_id, bytes(found.topic_id), found.partition)


def snapshot(key: ShareKey, kept: Kept) -> Record:
    """All of it."""
    value = ShareSnapshotValue(
        snapshot_epoch=kept.snapshot_epoch,
        state_epoch=kept.state_epoch,
        leader_epoch=kept.leader_epoch,
        start_offset=kept.start_offset,
        delivery_complete_count=kept.delivery_complete_count,
        create_timestamp=kept.create_ms,
        write_timestamp=kept.write_ms,
        state_batches=_written(kept.batches),
    )
    return Record(_snapshot_key(key), versioned(value, 0))


def update(key: ShareKey, snapshot_epoch: int, write: Write) -> Record:
    """A change to what the snapshot of that epoch says."""
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=write.leader_epoch,
        start_offset=write.start_offset,
        delivery_complete_count=write.delivery_complete_count,
        state_batches=_written(combined(write.batches, write.start_offset)),
    )
    update_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return Record(versioned_key(update_key), versioned(value, 0))


def tombstone(key: ShareKey) -> Record:
    """Nothing is kept any more."""
    return Record(_snapshot_key(key), None)


def read_snapshot(value: bytes) -> Kept:
    """Raises `ProtocolError`."""
    found = read_versioned(ShareSnapshotValue, value)
    return Kept(
        snapshot_epoch=found.snapshot_epoch,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
        batches=_read(found.state_batches),
        create_ms=found.create_timestamp,
        write_ms=found.write_timestamp,
    )


def read_update(value: bytes) -> Write:
    """Raises `ProtocolError`."""
    found = read_versioned(ShareUpdateValue, value)
    return Write(found.leader_epoch, found.start_offset, found.delivery_complete_count, _read(found.state_batches))


def _snapshot_key(key: ShareKey) -> bytes:
    return versioned_key(ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def _written(batches: tuple[StateBatch, ...]) -> list[KeptBatch]:
    return [
        KeptBatch(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def _read(batches: list[KeptBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )
