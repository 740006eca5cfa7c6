"""When offsets are forgotten: they are no longer needed (KIP-211), or their topic is gone.

The clock of an offset starts
- for a group that never had members: when it was committed;
- for a group whose members are gone: when the group became empty;
- for a stable consumer group: when it was committed, and only for topics no member subscribes to any more.
A commit that brought a retention of its own (until OffsetCommit v4) goes by that. An offset that an open transaction
may still change is kept, and so is a group with any open transaction (I40). A group without members and offsets goes;
one whose record cannot be read may have members, and stays with all its offsets.

Tombstones go out in batches that fit, each step looks at so many offsets and no more. The tombstone of a group is the
last of all: whatever is interrupted leaves a group with fewer offsets, never offsets without their group.
"""

from collections.abc import Iterable, Sequence

from coordinator.batch_room import STEP_BYTES, BatchRoom
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_entries import consumer_group_tombstones
from coordinator.groups.log_entries import group_tombstone, offset_tombstone
from coordinator.groups.logged import GroupLedger, LoggedGroup
from coordinator.groups.membership import GroupState, Membership
from coordinator.groups.offsets import NO_TOPIC_ID, OffsetStore, Partition, StoredOffset
from coordinator.groups.settings import GroupSettings
from coordinator.groups.streams.log_entries import streams_group_tombstones
from coordinator.machine import Record

VISITS_PER_STEP = 2_000
"""How many offsets or groups one step looks at."""


class RetentionRound:
    """A walk over all groups for what has expired, in bounded steps. Soft state: a reload begins anew.

    What a batch that the log refused would have removed is left to the next round.
    """

    def __init__(self, ledger: GroupLedger, memberships: dict[str, Membership], settings: GroupSettings) -> None:
        self._ledger = ledger
        self._logged = ledger.groups
        self._store = ledger.offsets
        self._memberships = memberships
        self._settings = settings
        self._groups: list[str] = []
        self._partitions: list[Partition] = []
        """Of the group at the end of `_groups`, if `_begun`: those that were not looked at yet."""
        self._begun = False

    @property
    def is_over(self) -> bool:
        """Whether every group was looked at."""
        return not self._groups

    def begin(self, group_ids: Iterable[str]) -> None:
        """Another round, over these groups."""
        self._groups = list(group_ids)
        self._begun = False

    def step(self, now_ms: int) -> list[Record]:
        """Tombstones for what has expired, the groups themselves included once nothing is left of them."""
        room = BatchRoom(min(STEP_BYTES, self._settings.max_batch_bytes))
        going = 0
        """How many offsets of the group that is looked at are about to go with this very batch."""
        for _ in range(VISITS_PER_STEP):
            if not self._groups:
                break
            group_id = self._groups[-1]
            group = self._logged.get(group_id)
            led = self._ledger.led_here(group_id)
            if not self._begun:
                if not self._knows_subscriptions(group_id):
                    break
                self._partitions = list(self._store.committed.get(group_id, ()))
                self._begun, going = True, 0
            readable = not self._ledger.is_half_read(group_id) if group is None else group.is_readable
            if self._partitions and readable and (group is not None or led is not None):
                topic, partition = self._partitions[-1]
                if self._has_expired(group_id, topic, partition, now_ms):
                    if not room.add(offset_tombstone(group_id, topic, partition)):
                        break
                    going += 1
                self._partitions.pop()
                continue
            if self._is_unused(group_id, going) and not room.add(*tombstones(self._ledger, group_id)):
                break
            self._forget_idle(group_id)
            self._groups.pop()
            self._begun = False
        return room.records

    def _has_expired(self, group_id: str, topic: str, partition: int, now_ms: int) -> bool:
        stored = self._store.get(group_id, topic, partition)
        if stored is None or self._store.is_unstable(group_id, topic, partition):
            return False
        led = self._ledger.led_here(group_id)
        if led is not None:
            # By the time of the commit, also where the group has no members (KIP-848).
            return not led.is_subscribed_to(topic) and _is_old(
                stored, stored.commit_timestamp_ms, self._settings, now_ms
            )
        members = self._memberships.get(group_id)
        return _has_expired(self._logged[group_id], members, topic, stored, self._settings, now_ms)

    def _knows_subscriptions(self, group_id: str) -> bool:
        members = self._memberships.get(group_id)
        return members is None or members.state is not GroupState.STABLE or members.knows_subscriptions()

    def _is_unused(self, group_id: str, going: int) -> bool:
        left = len(self._store.committed.get(group_id, ())) - going
        return self._is_idle(group_id) and left == 0 and not self._store.has_open_transaction(group_id)

    def _is_idle(self, group_id: str) -> bool:
        """Whether there is a group, and nobody in it."""
        led, group = self._ledger.led_here(group_id), self._logged.get(group_id)
        if led is not None:
            return not led.members and not self._ledger.is_half_read(group_id)
        members = self._memberships.get(group_id)
        return group is not None and group.is_readable and (members is None or members.is_idle)

    def _forget_idle(self, group_id: str) -> None:
        """What is in the log only costs less."""
        members = self._memberships.get(group_id)
        if members is not None and members.is_idle:
            members.let_go()
            del self._memberships[group_id]


def _has_expired(
    group: LoggedGroup,
    members: Membership | None,
    topic: str,
    stored: StoredOffset,
    settings: GroupSettings,
    now_ms: int,
) -> bool:
    since_ms = stored.commit_timestamp_ms
    if members is not None and members.state is not GroupState.EMPTY:
        known = members.state is GroupState.STABLE and members.subscriptions.topics is not None
        if not known or members.is_subscribed_to(topic):
            return False
    elif group.protocol_type is not None and group.state_timestamp_ms != -1:
        since_ms = group.state_timestamp_ms
    return _is_old(stored, since_ms, settings, now_ms)


def _is_old(stored: StoredOffset, since_ms: int, settings: GroupSettings, now_ms: int) -> bool:
    if stored.expire_timestamp_ms != -1:
        return now_ms >= stored.expire_timestamp_ms
    return now_ms - since_ms >= settings.offsets_retention_ms


def tombstones(ledger: GroupLedger, group_id: str) -> list[Record]:
    """What ends a group, of whichever protocol."""
    group = ledger.led_here(group_id)
    if group is None:
        return [group_tombstone(group_id)]
    if isinstance(group, ConsumerGroup):
        return list(consumer_group_tombstones(group))
    return list(streams_group_tombstones(group))


def records_of_deletion(
    group_id: str, store: OffsetStore, end: Sequence[Record], max_batch_bytes: int
) -> tuple[list[Record], bool]:
    """The group is deleted by its owner, with everything that is committed or staged for it: a batch of tombstones, and
    whether it is the last; `end` are those of the group."""
    room = BatchRoom(min(STEP_BYTES, max_batch_bytes))
    for partition in store.partitions_of(group_id):
        if not room.add(offset_tombstone(group_id, *partition)):
            return room.records, False
    return room.records, room.add(*end)


class TopicDeletion:
    """The offsets of topics that are gone, in all groups of one shard. A later topic of such a name keeps its own."""

    def __init__(self, topics: Iterable[tuple[str, bytes]]) -> None:
        """`topics` are (name, id)."""
        self._topic_ids: dict[str, set[bytes]] = {}
        for name, topic_id in topics:
            self._topic_ids.setdefault(name, {NO_TOPIC_ID}).add(topic_id)
        self._groups: list[str] | None = None
        self._group_id = ""
        self._partitions: list[Partition] = []
        """Of `_group_id`: those that were not looked at yet."""

    def step(self, store: OffsetStore, max_batch_bytes: int) -> tuple[list[Record], bool]:
        """The next batch of tombstones, perhaps none, and whether it is the last."""
        if self._groups is None:
            self._groups = list(store.groups())
        room = BatchRoom(min(STEP_BYTES, max_batch_bytes))
        for _ in range(VISITS_PER_STEP):
            if self._partitions:
                partition = self._partitions[-1]
                if self._is_of_it(store, partition) and not room.add(offset_tombstone(self._group_id, *partition)):
                    break
                self._partitions.pop()
            elif self._groups:
                self._group_id = self._groups.pop()
                self._partitions = list(store.partitions_of(self._group_id))
            else:
                return room.records, True
        return room.records, False

    def _is_of_it(self, store: OffsetStore, partition: Partition) -> bool:
        gone = self._topic_ids.get(partition[0])
        if gone is None:
            return False
        topic_ids = list(store.topic_ids_of(self._group_id, partition))
        return bool(topic_ids) and gone.issuperset(topic_ids)
