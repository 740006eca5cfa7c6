"""When offsets are forgotten: nobody needs them (KIP-211), or their topic is gone.

The clock of an offset starts
- for a group that never had members: when it was committed;
- for a group whose members are gone: when the group became empty;
- for a stable consumer group: when it was committed, and only for topics nobody in it subscribes to any more.
A commit that brought a retention of its own (until OffsetCommit v4) goes by that. An offset that an open transaction
may still change is kept, and so is a group with any open transaction (I40). A group without members and offsets goes.
"""

from coordinator.groups.group import Group, GroupState
from coordinator.groups.log_entries import group_tombstone, offset_tombstone
from coordinator.groups.offsets import OffsetStore, StoredOffset
from coordinator.groups.settings import GroupSettings
from coordinator.machine import Record


def records_of_retention(group: Group, store: OffsetStore, settings: GroupSettings, now_ms: int) -> list[Record]:
    """Tombstones for what has expired, the group itself included once nothing of it is left."""
    records = []
    kept = False
    for (topic, partition), stored in store.committed.get(group.group_id, {}).items():
        if _has_expired(group, topic, stored, settings, now_ms) and not store.is_unstable(
            group.group_id, topic, partition
        ):
            records.append(offset_tombstone(group.group_id, topic, partition))
        else:
            kept = True
    idle = group.state is GroupState.EMPTY and not group.pending
    if idle and not kept and not store.has_open_transaction(group.group_id):
        records.append(group_tombstone(group.group_id))
    return records


def _has_expired(group: Group, topic: str, stored: StoredOffset, settings: GroupSettings, now_ms: int) -> bool:
    since_ms = stored.commit_timestamp_ms
    if group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            if group.state_timestamp_ms != -1:
                since_ms = group.state_timestamp_ms
        elif group.state is not GroupState.STABLE or group.subscribed is None or group.is_subscribed_to(topic):
            return False
    if stored.expire_timestamp_ms != -1:
        return now_ms >= stored.expire_timestamp_ms
    return now_ms - since_ms >= settings.offsets_retention_ms


def records_of_deletion(group: Group, store: OffsetStore) -> list[Record]:
    """The group is deleted by its owner, with everything that is committed or staged for it."""
    records = [offset_tombstone(group.group_id, *partition) for partition in store.partitions_of(group.group_id)]
    records.append(group_tombstone(group.group_id))
    return records


def records_of_topic_deletion(store: OffsetStore, topic: str, topic_id: bytes, limit: int) -> list[Record]:
    """Tombstones for up to `limit` offsets of a topic that is gone; none when nothing is left.

    Offsets that were committed for a later topic of the same name stay.
    """
    records: list[Record] = []
    for group_id in store.groups():
        for partition in store.partitions_of(group_id):
            if partition[0] == topic and _all_of(store, group_id, partition, topic_id):
                records.append(offset_tombstone(group_id, *partition))
                if len(records) == limit:
                    return records
    return records


def _all_of(store: OffsetStore, group_id: str, partition: tuple[str, int], topic_id: bytes) -> bool:
    unnamed = bytes(16)
    return all(stored_id in (unnamed, topic_id) for stored_id in store.topic_ids_of(group_id, partition))
