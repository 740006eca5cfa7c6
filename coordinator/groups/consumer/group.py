"""A consumer group as its records say: members, what they are meant to have, what they have.

Only replay changes a group that is in the ledger (`log_reading`). A group that is about to be made of a classic one is
built by the same steps before its records are written.

Epochs: the group's rises with every change of members, subscriptions or topics; the one of the target assignment
follows it; each member follows that one, when it has given back what it is to lose.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from coordinator.groups.assignors.subject import NOTHING, Assignment
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.held import LOGGED_GROUP_BYTES, Held, text_bytes

INITIAL_EPOCH = 1
"""Of a group and of its target assignment, before its first record."""


class ConsumerGroupState(Enum):
    """Under the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression stood for."""

    topics: frozenset[str]
    version: int
    """Where the metadata log ended then."""
    timestamp_ms: int

    @property
    def held_bytes(self) -> int:
        return 200 + sum(80 + text_bytes(topic) for topic in self.topics)


class ConsumerGroup:
    """See the head of this file."""

    def __init__(self, group_id: str, held: Held | None = None) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id → member id."""
        self.targets: dict[str, Assignment] = {}
        """Member id → what it is to have. Nobody changes one."""
        self._topic_members: dict[str, int] = {}
        """Topic → how many members name it."""
        self.regex_members: dict[str, int] = {}
        """Regular expression → how many members ask for it."""
        self.classic_count = 0
        """How many members speak the classic protocol."""
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """A record of Kafka 4.0 or before says what the hash says now; it is deleted with the next change."""
        self._owners: dict[bytes, dict[int, str]] = {}
        """Topic id → partition → the member that has it, or has not given it back yet."""
        self._found_state: tuple[tuple[int, int], ConsumerGroupState] | None = None
        """With the epochs that it was found at; None after a change of members."""
        self._held = held or Held()
        self._counted_bytes = 0
        self.hold(LOGGED_GROUP_BYTES + 2 * text_bytes(group_id))

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Looked for in all members once after each change."""
        now = (self.epoch, self.assignment_epoch)
        if self._found_state is None or self._found_state[0] != now:
            self._found_state = (now, self._find_state())
        return self._found_state[1]

    def _find_state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this instance id."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Whether a member has the partition, or has not given it back yet."""
        return partition in self._owners.get(topic_id, ())

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """What a member is to have, also one that comes back under its instance id with another member id."""
        if instance_id is not None:
            member_id = self.static_ids.get(instance_id, "")
        return self.targets.get(member_id, NOTHING)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member wants; an expression that was not resolved yet stands for none."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member wants the topic."""
        return topic in self._topic_members or any(topic in one.topics for one in self.resolved.values())

    def classic_members(self) -> Iterator[ConsumerMember]:
        """Those that speak the classic protocol."""
        return (member for member in self.members.values() if member.classic is not None)

    # -- what the log says -----------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """A member came, or is another than it was."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._disown(before)
            self._count(before, -1)
            self._release_instance(before)
        self.members[member.member_id] = member
        self._count(member, 1)
        if before is None or before.topics is not member.topics:
            self._name(member, 1)
            if before is not None:
                self._name(before, -1)
        for partitions in (member.assigned, member.revoking):
            for topic_id, indexes in partitions.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member.member_id))
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self._name(member, -1)
        self._disown(member)
        self._release_instance(member)

    def _release_instance(self, member: ConsumerMember) -> None:
        """Another member may have taken the place of this one before."""
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]

    def _name(self, member: ConsumerMember, change: int) -> None:
        for topic in member.topics:
            count = self._topic_members.pop(topic, 0) + change
            if count:
                self._topic_members[topic] = count

    def _count(self, member: ConsumerMember, change: int) -> None:
        self._found_state = None
        self.hold(change * member.held_bytes)
        self.classic_count += change * (member.classic is not None)
        if member.regex:
            count = self.regex_members.pop(member.regex, 0) + change
            if count:
                self.regex_members[member.regex] = count

    def aim(self, member_id: str, target: Assignment | None) -> None:
        """What a member is to have from now on; None: nothing is said of it any more."""
        self.hold(-_target_bytes(self.targets.pop(member_id, NOTHING)))
        if target is not None:
            self.targets[member_id] = target
            self.hold(_target_bytes(target))

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """An expression stands for other topics; None: nobody asks any more."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            self.hold(-before.held_bytes - text_bytes(regex))
        if resolved is not None:
            self.resolved[regex] = resolved
            self.hold(resolved.held_bytes + text_bytes(regex))

    def _disown(self, member: ConsumerMember) -> None:
        """In a log that is compacted, another may have come by the partition before this is read."""
        for partitions in (member.assigned, member.revoking):
            for topic_id, indexes in partitions.items():
                owners = self._owners.get(topic_id, {})
                for partition in indexes:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    # -- memory ----------------------------------------------------------------------------------------------

    def hold(self, change_bytes: int) -> None:
        """The group grew, or shrank."""
        self._counted_bytes += change_bytes
        self._held.add(change_bytes)

    def let_go(self) -> None:
        """The group is forgotten: it holds nothing any more."""
        self.hold(-self._counted_bytes)


def _target_bytes(target: Assignment) -> int:
    return sum(250 + 50 * len(of) for of in target.values())


def without_epochs(partitions: Mapping[bytes, Mapping[int, int]]) -> Assignment:
    """What a member has, as assignors see it."""
    return {topic_id: frozenset(of) for topic_id, of in partitions.items()}
