"""What `__consumer_offsets` says of the groups of one shard: their last generations, and their offsets.

Rule 1. Only `GroupLedger.replay` writes this, live and on load alike; operations read it. So it is at any moment what
        a machine would have that has just replayed the whole log.
Rule 2. Who is joining, which generation is under way, who waits for what: all that is soft state (`membership`). It
        follows from what is logged, never the other way round.
"""

from collections import deque
from dataclasses import dataclass, field

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_reading import CONSUMER_TYPES, ConsumerGroups
from coordinator.groups.held import LOGGED_GROUP_BYTES, LOGGED_MEMBER_BYTES, Held, text_bytes
from coordinator.groups.offsets import OffsetStore, StoredOffset, UnreadableOffset
from coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.groups.share.log_reading import SHARE_TYPES, ShareGroups
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.log_reading import STREAMS_TYPES, StreamsGroups
from coordinator.machine import ReplayedMarker, ReplayedRecord, UnreadableValue
from protocol.codec import read_key, read_version, read_versioned
from protocol.errors import ProtocolError

KNOWN_TYPES = frozenset((0, 1, 2)) | CONSUMER_TYPES | SHARE_TYPES | STREAMS_TYPES
"""Of keys. A later release may have others."""


@dataclass(frozen=True, slots=True)
class LoggedMember:
    """A member of the last generation, with what its leader assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes

    @classmethod
    def of(cls, member: MemberMetadata) -> "LoggedMember":
        """What a record says."""
        return cls(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )

    @property
    def held_bytes(self) -> int:
        texts = text_bytes(self.member_id, self.instance_id, self.client_id, self.client_host)
        return LOGGED_MEMBER_BYTES + texts + len(self.subscription) + len(self.assignment)


@dataclass(frozen=True, slots=True)
class LoggedGroup:
    """A group as in its last record: a generation and its members, or none. One that has offsets and no record
    of its own is a simple group, whose owner assigns partitions by hand."""

    group_id: str
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    """Of a group without members: since when it has none. Its offsets expire by that."""
    members: dict[str, LoggedMember] = field(default_factory=dict)
    is_readable: bool = True
    """False where the last record of the group itself cannot be read: it may have members, and any generation."""
    held_bytes: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        texts = 2 * text_bytes(self.group_id) + text_bytes(self.protocol_type, self.protocol, self.leader)
        members = sum(member.held_bytes for member in self.members.values())
        object.__setattr__(self, "held_bytes", LOGGED_GROUP_BYTES + texts + members)

    @classmethod
    def of(
        cls, group_id: str, value: GroupMetadataValue, members: dict[str, LoggedMember] | None = None
    ) -> "LoggedGroup":
        """What a record says; `members` where they were read before."""
        if members is None:
            members = {member.member_id: LoggedMember.of(member) for member in value.members}
        return cls(
            group_id,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            leader=value.leader,
            state_timestamp_ms=value.current_state_timestamp,
            members=members,
        )


class GroupLedger:
    """All groups and offsets of one shard, as its log has them."""

    def __init__(self, held: Held | None = None) -> None:
        self.held = held or Held()
        self.groups: dict[str, LoggedGroup] = {}
        """Those of the classic protocol, and those that only keep offsets."""
        self.consumers = ConsumerGroups(self.held, lambda group_id: self._put(group_id, None))
        self.streams = StreamsGroups(self.held, lambda group_id: self._put(group_id, None))
        self.shares = ShareGroups(self.held)
        self.offsets = OffsetStore(self.held)
        self._written: deque[tuple[bytes, LoggedGroup]] = deque()

    def group_count(self) -> int:
        """Groups of all protocols, and names that only keep offsets."""
        led = self.consumers.by_id.keys() | self.streams.by_id.keys() | self.shares.by_id.keys()
        return len(self.groups) + len(led - self.groups.keys())

    def led_here(self, group_id: str) -> ConsumerGroup | StreamsGroup | None:
        """The group, if the broker itself leads it: a consumer group or a streams group."""
        return self.consumers.by_id.get(group_id) or self.streams.by_id.get(group_id)

    def is_half_read(self, group_id: str) -> bool:
        """Whether a record of such a group cannot be read."""
        return group_id in self.consumers.unreadable or group_id in self.streams.unreadable

    def wrote(self, value: bytes, group: LoggedGroup) -> None:
        """A record of a group was just made: replay need not decode what is known."""
        self._written.append((value, group))

    def _just_written(self, value: bytes) -> LoggedGroup | None:
        while self._written:
            # What belongs to an append that was refused is skipped: its value is another object.
            written, group = self._written.popleft()
            if written is value:
                return group
        return None

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> str | None:
        """Take in what the log says; the id of the classic group whose own record it is. Unknown record types are
        skipped (KIP-915), unknown versions of known ones are not: to skip them would lose offsets (KAFKA-18672). Raises
        `UnreadableValue`, and `ProtocolError` where the key cannot be read."""
        if isinstance(entry, ReplayedMarker):
            self.offsets.end_transaction(entry.stamp.producer_id, commit=entry.commit)
            return None
        match read_version(entry.key):
            case 2:
                return self._replay_group(entry)
            case 1:
                key = read_key(OffsetCommitKey, entry.key)
                self._replay_offset(key.group, key.topic, key.partition, entry)
            case 0:
                old = read_key(LegacyOffsetCommitKey, entry.key)
                self._replay_offset(old.group, old.topic, old.partition, entry)
            case known if known in CONSUMER_TYPES:
                self.consumers.replay(entry)
            case known if known in STREAMS_TYPES:
                self.streams.replay(entry)
            case known if known in SHARE_TYPES:
                self.shares.replay(entry)
            case _:
                pass
        return None

    def _replay_group(self, entry: ReplayedRecord) -> str:
        group_id = read_key(GroupMetadataKey, entry.key).group
        known = self.groups.get(group_id)
        if known is not None:
            group_id = known.group_id  # A client chose it, of up to 32 KB: one copy is enough.
        if entry.value is None:
            self._put(group_id, None)
        else:
            group = self._just_written(entry.value)
            if group is None:
                group = self._read_group(group_id, entry.value)
            self._put(group_id, group)
        return group_id

    def _read_group(self, group_id: str, value: bytes) -> LoggedGroup:
        try:
            return LoggedGroup.of(group_id, read_versioned(GroupMetadataValue, value))
        except ProtocolError as error:
            self._put(group_id, LoggedGroup(group_id, is_readable=False))
            raise UnreadableValue(f"group {group_id!r}: {error}") from error

    def _put(self, group_id: str, group: LoggedGroup | None) -> None:
        before = self.groups.pop(group_id, None) if group is None else self.groups.get(group_id)
        if before is not None:
            self.held.add(-before.held_bytes)
        if group is not None:
            self.groups[group_id] = group
            self.held.add(group.held_bytes)

    def _replay_offset(self, group_id: str, topic: str, partition: int, entry: ReplayedRecord) -> None:
        unreadable: ProtocolError | None = None
        stored: StoredOffset | None = None
        if entry.value is not None:
            try:
                stored = StoredOffset.of(read_versioned(OffsetCommitValue, entry.value), entry.offset)
            except ProtocolError as error:
                stored, unreadable = UnreadableOffset(entry.timestamp_ms, entry.offset), error
            if not any(group_id in known for known in (self.groups, self.consumers.by_id, self.streams.by_id)):
                # A client stores offsets without being a member.
                self._put(group_id, LoggedGroup(group_id))
        producer_id = None if entry.stamp is None else entry.stamp.producer_id
        self.offsets.replay(group_id, topic, partition, stored, producer_id=producer_id)
        if unreadable is not None:
            raise UnreadableValue(f"offset of group {group_id!r} for {topic}-{partition}: {unreadable}")
