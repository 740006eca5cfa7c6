"""A streams group as its records say: its topology, members, what they are meant to have, what they have.

Only replay changes a group that is in the ledger (`log_reading`).

Epochs: the group's rises with every change of members, topics or settings; the one of the target assignment follows it;
each member follows that one, when it has given back what it is to lose. The epoch of the topology is the application's.
"""

from dataclasses import dataclass
from enum import Enum

from coordinator.groups.held import LOGGED_GROUP_BYTES, Held, text_bytes
from coordinator.groups.streams.member import NO_TASKS, StreamsMember, TaskRole, Tasks
from coordinator.groups.streams.topology import Topology

INITIAL_EPOCH = 1
"""Of a group and of its target assignment, before its first record."""
NOT_VALIDATED = -1


class StreamsGroupState(Enum):
    """Under the names that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Its topics are not as its topology wants them."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the record of a group itself says."""

    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = NOT_VALIDATED
    """The epoch of the topology whose topics are as they must be."""
    configs: tuple[tuple[str, str], ...] = ()
    """The settings that its target was last computed with."""


class StreamsGroup:
    """See the head of this file."""

    def __init__(self, group_id: str, held: Held | None = None) -> None:
        self.group_id = group_id
        self.facts = GroupFacts()
        self.topology: Topology | None = None
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        """Member id → what it is to have. Nobody changes one."""
        self._active: dict[tuple[str, int], str] = {}
        """Task → the member that runs it, or has not given it back yet."""
        self._copies: dict[tuple[str, int], dict[str, int]] = {}
        """Task → process → how many of its members keep a copy of its state, or have not given it back yet."""
        self._changes = 0
        """Counts changes of members."""
        self._found_state: tuple[tuple[object, ...], StreamsGroupState] | None = None
        self._held = held or Held()
        self._counted_bytes = 0
        self.hold(LOGGED_GROUP_BYTES + 2 * text_bytes(group_id))

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.facts.epoch

    @property
    def state(self) -> StreamsGroupState:
        """Looked for in all members once after each change."""
        now = (self._changes, self.facts, self.assignment_epoch, self.topology)
        if self._found_state is None or self._found_state[0] != now:
            self._found_state = (now, self._find_state())
        return self._found_state[1]

    def _find_state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.facts.validated_topology_epoch != self.topology.epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def runs(self, subtopology_id: str, partition: int) -> StreamsMember | None:
        """The member that runs a task, or has not given it back yet."""
        member_id = self._active.get((subtopology_id, partition))
        return None if member_id is None else self.members.get(member_id)

    def keeps_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether a process keeps a copy of the state of a task, or has not given it back yet."""
        return process_id in self._copies.get((subtopology_id, partition), ())

    def target_of(self, member_id: str) -> Tasks:
        """What a member is to have."""
        return self.targets.get(member_id, NO_TASKS)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    # -- what the log says -----------------------------------------------------------------------------------

    def put(self, member: StreamsMember) -> None:
        """A member came, or is another than it was."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._disown(before)
            self.hold(-before.held_bytes)
        self.members[member.member_id] = member
        self._changes += 1
        self.hold(member.held_bytes)
        for tasks in (member.assigned, member.revoking):
            for task in tasks.each(TaskRole.ACTIVE):
                self._active[task] = member.member_id
            for role in (TaskRole.STANDBY, TaskRole.WARMUP):
                for task in tasks.each(role):
                    copies = self._copies.setdefault(task, {})
                    copies[member.process_id] = copies.get(member.process_id, 0) + 1

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._changes += 1
            self.hold(-member.held_bytes)
            self._disown(member)

    def _disown(self, member: StreamsMember) -> None:
        """In a log that is compacted, another may have come by a task before this is read."""
        for tasks in (member.assigned, member.revoking):
            for task in tasks.each(TaskRole.ACTIVE):
                if self._active.get(task) == member.member_id:
                    del self._active[task]
            for role in (TaskRole.STANDBY, TaskRole.WARMUP):
                for task in tasks.each(role):
                    copies = self._copies[task]
                    count = copies.pop(member.process_id) - 1
                    if count:
                        copies[member.process_id] = count
                    elif not copies:
                        del self._copies[task]

    def aim(self, member_id: str, target: Tasks | None) -> None:
        """What a member is to have from now on; None: nothing is said of it any more."""
        before = self.targets.pop(member_id, None)
        self.hold(0 if before is None else -before.held_bytes)
        if target is not None:
            self.targets[member_id] = target
            self.hold(target.held_bytes)

    def declare(self, topology: Topology | None) -> None:
        """The application is this now."""
        if self.topology is not None:
            self.hold(-self.topology.held_bytes)
        self.topology = topology
        if topology is not None:
            self.hold(topology.held_bytes)

    # -- memory ----------------------------------------------------------------------------------------------

    def hold(self, change_bytes: int) -> None:
        """The group grew, or shrank."""
        self._counted_bytes += change_bytes
        self._held.add(change_bytes)

    def let_go(self) -> None:
        """The group is forgotten: it holds nothing any more."""
        self.hold(-self._counted_bytes)
