"""One member of a streams group, as its records say, and the tasks that it has.

A member is a thread of an application; a process is one instance of it, with as many members as it has threads. State
is shared by a process: a task is run, and kept warm, at most once in each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from coordinator.groups.held import MEMBER_BYTES, text_bytes

JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH = 0, -1, -2
TaskIds = Mapping[str, frozenset[int]]
"""Subtopology → partitions. Never changed."""
ActiveTasks = Mapping[str, Mapping[int, int]]
"""Subtopology → partition → the epoch in which it was assigned. Never changed."""


class TaskRole(IntEnum):
    """What a member does for a task."""

    ACTIVE = 0
    STANDBY = 1
    """It follows the changelog, so as to take over soon."""
    WARMUP = 2
    """Likewise, until it is near enough to become active. Kafka 4.3 assigns none, but its records know them."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks by role."""

    active: TaskIds
    standby: TaskIds
    warmup: TaskIds

    def of(self, role: TaskRole) -> TaskIds:
        return (self.active, self.standby, self.warmup)[role]

    @property
    def held_bytes(self) -> int:
        return 200 + sum(250 + 50 * len(of) for ids in (self.active, self.standby, self.warmup) for of in ids.values())


NO_TASKS = Tasks({}, {}, {})


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Tasks that a member has, with the epochs since when it has the active ones: a commit of that epoch or a later one
    is not a stale one (KIP-1251)."""

    active: ActiveTasks
    standby: TaskIds
    warmup: TaskIds

    def ids(self) -> Tasks:
        return Tasks({one: frozenset(of) for one, of in self.active.items()}, self.standby, self.warmup)

    def each(self, role: TaskRole) -> Iterator[tuple[str, int]]:
        """Every task of a role."""
        by_subtopology: Mapping[str, Mapping[int, int] | frozenset[int]]
        by_subtopology = (self.active, self.standby, self.warmup)[role]
        return ((subtopology, index) for subtopology, of in by_subtopology.items() for index in of)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, named: Tasks) -> bool:
        """Whether any of these tasks is named, in its role."""
        return any(index in named.of(role).get(one, ()) for role in TaskRole for one, index in self.each(role))


NOTHING_HELD = HeldTasks({}, {}, {})


class MemberState(IntEnum):
    """The numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It has to give tasks back before it is told more."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others, or its own process, have not given back yet."""
    UNKNOWN = 127
    """Said by a record of a later release."""


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """See the head of this file."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    """Where its process answers questions about its state: host and port."""
    tags: tuple[tuple[str, str], ...] = ()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(
        self, epoch: int, state: MemberState, assigned: HeldTasks, revoking: HeldTasks = NOTHING_HELD
    ) -> "StreamsMember":
        """The member at another epoch, or at the same one."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch, state=state, assigned=assigned, revoking=revoking)

    def epoch_of(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch in which it got an active task that it has or is giving back."""
        epoch = self.assigned.active.get(subtopology_id, {}).get(partition)
        return self.revoking.active.get(subtopology_id, {}).get(partition) if epoch is None else epoch

    @property
    def held_bytes(self) -> int:
        texts = text_bytes(self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host)
        texts += text_bytes(self.process_id, self.endpoint and self.endpoint[0])
        tags = sum(150 + text_bytes(*tag) for tag in self.tags)
        return MEMBER_BYTES + texts + tags + self.assigned.ids().held_bytes + self.revoking.ids().held_bytes
