"""A share group as its records say. Only replay changes one (`log_reading`).

Epochs: the group's rises with every change of members, subscriptions, topics or initialised partitions; the one of the
target assignment follows it, and each member follows that one with its next heartbeat. Nobody gives anything back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from coordinator.groups.assignors.subject import NOTHING, Assignment
from coordinator.groups.held import LOGGED_GROUP_BYTES, Held, text_bytes
from coordinator.groups.share.member import ShareMember

SHARED_PARTITION_BYTES = 650
"""With what the share coordinator keeps of it, but for batches."""
INITIAL_EPOCH = 1
"""Of a group and of its target assignment, before its first record."""


class ShareGroupState(Enum):
    """Under the names that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class SharedTopic:
    """Some partitions of a topic, in one state of initialisation."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0
    """When that was written down."""


SharedTopics = Mapping[bytes, SharedTopic]
"""By topic id."""


class ShareGroup:
    """See the head of this file."""

    def __init__(self, group_id: str, held: Held | None = None) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        """Member id → what it is to have. Nobody changes one."""
        self.topic_members: dict[str, int] = {}
        """Topic → how many members name it."""
        self.initializing: SharedTopics = {}
        """The share coordinator was asked to keep them, and has not answered yet."""
        self.initialized: SharedTopics = {}
        """The share coordinator keeps them: members may have them."""
        self.deleting: Mapping[bytes, str] = {}
        """The share coordinator was asked to forget them. By topic id, the name."""
        self.is_target_old = False
        """Whether other partitions are initialised than when the target was made."""
        self._held = held or Held()
        self._counted_bytes = 0
        self.hold(LOGGED_GROUP_BYTES + 2 * text_bytes(group_id))

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    # -- what the log says -----------------------------------------------------------------------------------

    def put(self, member: ShareMember) -> None:
        """A member came, or is another than it was."""
        self._count(self.members.get(member.member_id), -1)
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        self._count(self.members.pop(member_id, None), -1)

    def _count(self, member: ShareMember | None, change: int) -> None:
        if member is not None:
            self.hold(change * member.held_bytes)
            for topic in member.topics:
                count = self.topic_members.pop(topic, 0) + change
                if count:
                    self.topic_members[topic] = count

    def aim(self, member_id: str, target: Assignment | None) -> None:
        """What a member is to have from now on; None: nothing is said of it any more."""
        self.hold(-_target_bytes(self.targets.pop(member_id, NOTHING)))
        if target is not None:
            self.targets[member_id] = target
            self.hold(_target_bytes(target))

    def share(self, initializing: SharedTopics, initialized: SharedTopics, deleting: Mapping[bytes, str]) -> None:
        """The share coordinator keeps other partitions than before."""
        self.hold(-self._state_bytes())
        before = {topic_id: topic.partitions for topic_id, topic in self.initialized.items()}
        if before != {topic_id: topic.partitions for topic_id, topic in initialized.items()}:
            self.is_target_old = True
        self.initializing, self.initialized, self.deleting = initializing, initialized, deleting
        self.hold(self._state_bytes())

    def assigned_anew(self, epoch: int, timestamp_ms: int) -> None:
        """The targets are those of this epoch."""
        self.assignment_epoch, self.assignment_timestamp_ms = epoch, timestamp_ms
        self.is_target_old = False

    # -- memory ----------------------------------------------------------------------------------------------

    def hold(self, change_bytes: int) -> None:
        """The group grew, or shrank."""
        self._counted_bytes += change_bytes
        self._held.add(change_bytes)

    def let_go(self) -> None:
        """The group is forgotten: it holds nothing any more."""
        self.hold(-self._counted_bytes)

    def _state_bytes(self) -> int:
        shared = 0
        for part in (self.initializing, self.initialized):
            for topic in part.values():
                shared += 250 + SHARED_PARTITION_BYTES * len(topic.partitions) + text_bytes(topic.name)
        return shared + sum(150 + text_bytes(name) for name in self.deleting.values())


def _target_bytes(target: Assignment) -> int:
    return sum(250 + 50 * len(partitions) for partitions in target.values())
