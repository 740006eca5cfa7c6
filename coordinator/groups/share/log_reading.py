"""Takes in what `__consumer_offsets` says of share groups.

Rule 1. Any record makes its group; a tombstone of what is not there is nothing.
Rule 2. The tombstone of a group is the last of all that it had.
Rule 3. A value that cannot be read makes its group unreadable until it is deleted.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.groups.held import Held
from coordinator.groups.share.group import SharedTopic, ShareGroup
from coordinator.groups.share.member import LEAVING_EPOCH, ShareMember
from coordinator.groups.share.records import (
    SharedTopicPartitions,
    SharedTopicState,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from coordinator.machine import ReplayedRecord, UnreadableValue
from protocol.codec import read_key, read_version, read_versioned
from protocol.errors import ProtocolError

SHARE_TYPES = frozenset(range(10, 16))
"""Of keys."""


class ShareGroups:
    """All share groups of one shard, as its log has them."""

    def __init__(self, held: Held) -> None:
        self.gone: list[tuple[str, str]] = []
        """Groups and members that the log has said are gone; no member: a group. Others take them away."""
        self._held = held
        self.by_id: dict[str, ShareGroup] = {}
        self.unreadable: set[str] = set()

    def replay(self, entry: ReplayedRecord) -> None:
        """Take in one record. Raises `UnreadableValue`, and `ProtocolError` where the key cannot be read."""
        key, value = entry.key, entry.value
        match read_version(key):
            case 10:
                member = read_key(ShareGroupMemberMetadataKey, key)
                self._read(
                    member.group_id, entry, lambda: self._replay_member(member.group_id, member.member_id, value)
                )
            case 11:
                group_id = read_key(ShareGroupMetadataKey, key).group_id
                self._read(group_id, entry, lambda: self._replay_epoch(group_id, value))
            case 12:
                group_id = read_key(ShareGroupTargetAssignmentMetadataKey, key).group_id
                self._read(group_id, entry, lambda: self._replay_assignment_epoch(group_id, value))
            case 13:
                target = read_key(ShareGroupTargetAssignmentMemberKey, key)
                self._read(
                    target.group_id, entry, lambda: self._replay_target(target.group_id, target.member_id, value)
                )
            case 14:
                current = read_key(ShareGroupCurrentMemberAssignmentKey, key)
                group_id = current.group_id
                self._read(group_id, entry, lambda: self._replay_current(group_id, current.member_id, value))
            case _:
                group_id = read_key(ShareGroupStatePartitionMetadataKey, key).group_id
                self._read(group_id, entry, lambda: self._replay_shared(group_id, value, entry.timestamp_ms))

    def _read(self, group_id: str, entry: ReplayedRecord, take: Callable[[], None]) -> None:
        try:
            take()
        except ProtocolError as error:
            self._made(group_id)
            self.unreadable.add(group_id)
            raise UnreadableValue(f"share group {group_id!r}: {error}") from error

    def _made(self, group_id: str) -> ShareGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ShareGroup(group_id, self._held)
        return group

    def _replay_epoch(self, group_id: str, value: bytes | None) -> None:
        if value is not None:
            read = read_versioned(ShareGroupMetadataValue, value)
            group = self._made(group_id)
            group.epoch, group.metadata_hash = read.epoch, read.metadata_hash
            return
        gone = self.by_id.pop(group_id, None)
        self.unreadable.discard(group_id)
        if gone is not None:
            gone.let_go()
            self.gone += [(group_id, member_id) for member_id in (*gone.members, "")]

    def _replay_assignment_epoch(self, group_id: str, value: bytes | None) -> None:
        if value is not None:
            read = read_versioned(ShareGroupTargetAssignmentMetadataValue, value)
            self._made(group_id).assigned_anew(read.assignment_epoch, read.assignment_timestamp)

    def _replay_member(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.remove(member_id)
                self.gone.append((group_id, member_id))
            return
        read = read_versioned(ShareGroupMemberMetadataValue, value)
        group = self._made(group_id)
        known = group.members.get(member_id) or ShareMember(member_id)
        group.put(
            replace(
                known,
                rack_id=read.rack_id,
                client_id=read.client_id,
                client_host=read.client_host,
                topics=frozenset(read.subscribed_topic_names),
            )
        )

    def _replay_target(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.aim(member_id, None)
            return
        read = read_versioned(ShareGroupTargetAssignmentMemberValue, value)
        self._made(group_id).aim(member_id, _assignment(read.topic_partitions))

    def _replay_current(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            group = self.by_id.get(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is not None and member is not None:
                group.put(replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={}))
            return
        read = read_versioned(ShareGroupCurrentMemberAssignmentValue, value)
        group = self._made(group_id)
        known = group.members.get(member_id) or ShareMember(member_id)
        assigned = _assignment(read.assigned_partitions)
        group.put(replace(known, epoch=read.member_epoch, previous_epoch=read.previous_member_epoch, assigned=assigned))

    def _replay_shared(self, group_id: str, value: bytes | None, timestamp_ms: int) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.share({}, {}, {})
            return
        read = read_versioned(ShareGroupStatePartitionMetadataValue, value)
        self._made(group_id).share(
            _shared(read.initializing_topics, timestamp_ms),
            _shared(read.initialized_topics, timestamp_ms),
            {bytes(topic.topic_id): topic.topic_name for topic in read.deleting_topics},
        )


def _assignment(topics: list[SharedTopicPartitions]) -> dict[bytes, frozenset[int]]:
    return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in topics}


def _shared(topics: list[SharedTopicState], timestamp_ms: int) -> dict[bytes, SharedTopic]:
    return {
        bytes(topic.topic_id): SharedTopic(topic.topic_name, frozenset(topic.partitions), timestamp_ms)
        for topic in topics
    }
