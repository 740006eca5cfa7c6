"""Records of `__consumer_offsets`, made and read. Kafka's own formats, in the versions that Kafka 4.3 writes."""

from coordinator.groups.membership import Membership
from coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.machine import Record
from protocol.codec import versioned, versioned_key
from protocol.schema import Uuid

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_RETENTION = 1
"""The last version that can say when an offset expires; for clients that still ask for a retention of their own."""


def group_key(group_id: str) -> bytes:
    return versioned_key(GroupMetadataKey(group=group_id))


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return versioned_key(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_tombstone(group_id: str) -> Record:
    """The group is gone."""
    return Record(group_key(group_id), None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The offset is gone, committed and staged alike."""
    return Record(offset_key(group_id, topic, partition), None)


def empty_group(group: Membership, generation: int, now_ms: int) -> Record:
    """A group without members."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=now_ms,
        members=[],
    )
    return Record(group_key(group.group_id), versioned(value, GROUP_METADATA_VERSION))


def committed_offset(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: Uuid,
) -> Record:
    """An offset, plain or (by the batch it is in) staged in a transaction."""
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=topic_id,
    )
    version = OFFSET_COMMIT_VERSION if expire_timestamp_ms == -1 else OFFSET_COMMIT_VERSION_WITH_RETENTION
    return Record(offset_key(group_id, topic, partition), versioned(value, version))
