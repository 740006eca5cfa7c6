"""Takes in what `__consumer_offsets` says of consumer groups.

Rule 1. A record of a member, a target or an expression makes its group; a tombstone of what is not there is nothing.
Rule 2. The tombstone of a group is the last of all that it had. Whatever compaction has left behind of an earlier life
        goes with it.
Rule 3. A value that cannot be read makes its group unreadable until it is deleted: half a group would give partitions
        to two members.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.groups.consumer.member import (
    LEAVING_EPOCH,
    ClassicFacet,
    ConsumerMember,
    MemberState,
    Partitions,
)
from coordinator.groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from coordinator.groups.held import Held
from coordinator.machine import ReplayedRecord, UnreadableValue
from protocol.codec import read_key, read_version, read_versioned
from protocol.errors import ProtocolError

CONSUMER_TYPES = frozenset((3, 4, 5, 6, 7, 8, 16))
"""Of keys."""


class ConsumerGroups:
    """All consumer groups of one shard, as its log has them."""

    def __init__(self, held: Held, on_first: Callable[[str], None]) -> None:
        """`on_first` is called with the id of a group of which the log has said nothing yet."""
        self.gone: list[tuple[str, str]] = []
        """Groups and members that the log has said are gone; no member: a group. Others take them away."""
        self._held = held
        self._on_first = on_first
        self.by_id: dict[str, ConsumerGroup] = {}
        self.unreadable: set[str] = set()

    def replay(self, entry: ReplayedRecord) -> None:
        """Take in one record. Raises `UnreadableValue`, and `ProtocolError` where the key cannot
        be read."""
        match read_version(entry.key):
            case 3:
                group_id = read_key(ConsumerGroupMetadataKey, entry.key).group_id
                self._read(group_id, entry, lambda: self._replay_epoch(group_id, entry.value))
            case 4:
                group_id = read_key(ConsumerGroupPartitionMetadataKey, entry.key).group_id
                group = self._group(group_id, entry.value)
                if group is not None:
                    group.has_partition_metadata = entry.value is not None
            case 5:
                member = read_key(ConsumerGroupMemberMetadataKey, entry.key)
                group_id = member.group_id
                self._read(group_id, entry, lambda: self._replay_member(group_id, member.member_id, entry.value))
            case 6:
                group_id = read_key(ConsumerGroupTargetAssignmentMetadataKey, entry.key).group_id
                self._read(group_id, entry, lambda: self._replay_assignment_epoch(group_id, entry.value))
            case 7:
                target = read_key(ConsumerGroupTargetAssignmentMemberKey, entry.key)
                group_id = target.group_id
                self._read(group_id, entry, lambda: self._replay_target(group_id, target.member_id, entry.value))
            case 8:
                current = read_key(ConsumerGroupCurrentMemberAssignmentKey, entry.key)
                group_id = current.group_id
                self._read(group_id, entry, lambda: self._replay_current(group_id, current.member_id, entry.value))
            case _:
                regex = read_key(ConsumerGroupRegularExpressionKey, entry.key)
                group_id = regex.group_id
                self._read(group_id, entry, lambda: self._replay_regex(group_id, regex.regular_expression, entry.value))

    def _read(self, group_id: str, entry: ReplayedRecord, take: Callable[[], None]) -> None:
        try:
            take()
        except ProtocolError as error:
            self._group(group_id, entry.value)
            self.unreadable.add(group_id)
            raise UnreadableValue(f"consumer group {group_id!r}: {error}") from error

    def _group(self, group_id: str, value: bytes | None) -> ConsumerGroup | None:
        """The group that a record is of; None for a tombstone of nothing."""
        group = self.by_id.get(group_id)
        if group is None and value is not None:
            self._on_first(group_id)
            group = self.by_id[group_id] = ConsumerGroup(group_id, self._held)
        return group

    def _made(self, group_id: str) -> ConsumerGroup:
        group = self._group(group_id, b"")
        assert group is not None
        return group

    def _replay_epoch(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            group = self.by_id.pop(group_id, None)
            self.unreadable.discard(group_id)
            if group is not None:
                group.let_go()
                self.gone += [(group_id, member_id) for member_id in (*group.members, "")]
            return
        read = read_versioned(ConsumerGroupMetadataValue, value)
        group = self._made(group_id)
        group.epoch, group.metadata_hash = read.epoch, read.metadata_hash

    def _replay_assignment_epoch(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.assignment_epoch, group.assignment_timestamp_ms = -1, 0
            return
        read = read_versioned(ConsumerGroupTargetAssignmentMetadataValue, value)
        group = self._made(group_id)
        group.assignment_epoch, group.assignment_timestamp_ms = read.assignment_epoch, read.assignment_timestamp

    def _replay_member(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.remove(member_id)
                self.gone.append((group_id, member_id))
            return
        read = read_versioned(ConsumerGroupMemberMetadataValue, value)
        group = self._made(group_id)
        known = group.members.get(member_id) or ConsumerMember(member_id)
        classic = read.classic_member_metadata
        group.put(
            replace(
                known,
                instance_id=read.instance_id,
                rack_id=read.rack_id,
                client_id=read.client_id,
                client_host=read.client_host,
                rebalance_timeout_ms=read.rebalance_timeout_ms,
                topics=frozenset(read.subscribed_topic_names),
                regex=read.subscribed_topic_regex,
                assignor=read.server_assignor,
                classic=None
                if classic is None or not classic.supported_protocols
                else ClassicFacet(
                    classic.session_timeout_ms,
                    tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols),
                ),
            )
        )

    def _replay_target(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.aim(member_id, None)
            return
        read = read_versioned(ConsumerGroupTargetAssignmentMemberValue, value)
        target = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in read.topic_partitions}
        self._made(group_id).aim(member_id, target)

    def _replay_current(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            group = self.by_id.get(group_id)
            known = None if group is None else group.members.get(member_id)
            if group is not None and known is not None:
                group.put(replace(known, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={}, revoking={}))
            return
        read = read_versioned(ConsumerGroupCurrentMemberAssignmentValue, value)
        group = self._made(group_id)
        known = group.members.get(member_id) or ConsumerMember(member_id)
        state = MemberState(read.state) if read.state in (0, 1, 2) else MemberState.UNKNOWN
        group.put(
            replace(
                known,
                epoch=read.member_epoch,
                previous_epoch=read.previous_member_epoch,
                state=state,
                assigned=_read_partitions(read.assigned_partitions, read.member_epoch),
                revoking=_read_partitions(read.partitions_pending_revocation, read.member_epoch),
            )
        )

    def _replay_regex(self, group_id: str, regex: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.resolve(regex, None)
            return
        read = read_versioned(ConsumerGroupRegularExpressionValue, value)
        resolved = ResolvedRegex(frozenset(read.topics), read.version, read.timestamp)
        self._made(group_id).resolve(regex, resolved)


def _read_partitions(topics: list[CurrentTopicPartitions], member_epoch: int) -> Partitions:
    """A record of before Kafka 4.3 has no epochs of assignments: that of the member stands for them."""
    read = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        read[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return read
