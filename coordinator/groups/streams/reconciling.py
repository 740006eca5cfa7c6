"""From what a member has to what it is to have: what it is told next.

A member first gives back what it is to lose, and says so by no longer naming it among its tasks. Until then it stays at
its epoch, and nobody else gets these tasks. Then it gets what is free, and goes to the epoch of the target; what others
have not given back yet follows, as they do.

A task is free to be run when nobody runs it and the process of the member keeps no copy of it, for it has one state in
each process; free to be kept warm when the process does neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import HeldTasks, MemberState, StreamsMember, TaskIds, TaskRole, Tasks
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What one step looks at."""

    target_epoch: int
    target: Tasks
    group: StreamsGroup
    """With what members have not given back yet."""
    owned: Tasks | None
    """None where the member has not said."""

    def next_of(self, member: StreamsMember) -> StreamsMember:
        """The member after this step. Raises `Refusal`."""
        match member.state:
            case MemberState.STABLE:
                return member if member.epoch == self.target_epoch else self._towards_target(member, member.epoch)
            case MemberState.UNREVOKED_TASKS:
                return member if self._owns_any(member.revoking) else self._towards_target(member, member.epoch)
            case MemberState.UNRELEASED_TASKS:
                return self._towards_target(member, member.epoch)
            case MemberState.UNKNOWN:
                # Written by a later release: only a member that has nothing can begin anew.
                if self.owned is None or any(self.owned.of(role) for role in TaskRole):
                    raise Refusal(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The streams group member is in a unknown state. "
                        "The member must abandon all its tasks and rejoin.",
                    )
                return self._towards_target(member, self.target_epoch)

    def _owns_any(self, tasks: HeldTasks) -> bool:
        return not tasks.is_empty and (self.owned is None or tasks.overlaps(self.owned))

    def _towards_target(self, member: StreamsMember, epoch: int) -> StreamsMember:
        has = member.assigned.ids()
        kept = Tasks(*(_common(has.of(role), self.target.of(role)) for role in TaskRole))
        lost = Tasks(*(_without(has.of(role), self.target.of(role)) for role in TaskRole))
        assigned, revoking = _of_active(member, kept), _of_active(member, lost)
        if self._owns_any(revoking):
            return member.moved(epoch, MemberState.UNREVOKED_TASKS, assigned, revoking)
        waits = False
        free: list[TaskIds] = []
        for role in TaskRole:
            wanted = _without(self.target.of(role), has.of(role))
            now = {
                one: frozenset(index for index in of if self._is_free(member.process_id, role, one, index))
                for one, of in wanted.items()
            }
            free.append({one: of for one, of in now.items() if of})
            waits = waits or now != wanted
        state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
        return member.moved(self.target_epoch, state, self._with(assigned, Tasks(*free)))

    def _is_free(self, process_id: str, role: TaskRole, subtopology: str, partition: int) -> bool:
        runner = self.group.runs(subtopology, partition)
        if runner is not None and (role is TaskRole.ACTIVE or runner.process_id == process_id):
            return False
        return not self.group.keeps_copy(process_id, subtopology, partition)

    def _with(self, assigned: HeldTasks, free: Tasks) -> HeldTasks:
        active: dict[str, Mapping[int, int]] = dict(assigned.active)
        for one, of in free.active.items():
            active[one] = {**active.get(one, {}), **dict.fromkeys(of, self.target_epoch)}
        return HeldTasks(active, _together(assigned.standby, free.standby), _together(assigned.warmup, free.warmup))


def _of_active(member: StreamsMember, ids: Tasks) -> HeldTasks:
    """Some of the tasks that a member has, with its epochs."""
    active = {one: {index: member.assigned.active[one][index] for index in of} for one, of in ids.active.items()}
    return HeldTasks(active, ids.standby, ids.warmup)


def _common(some: TaskIds, others: TaskIds) -> TaskIds:
    common = {one: of & others.get(one, frozenset()) for one, of in some.items()}
    return {one: of for one, of in common.items() if of}


def _without(some: TaskIds, others: TaskIds) -> TaskIds:
    left = {one: of - others.get(one, frozenset()) for one, of in some.items()}
    return {one: of for one, of in left.items() if of}


def _together(some: TaskIds, others: TaskIds) -> TaskIds:
    return {one: some.get(one, frozenset()) | others.get(one, frozenset()) for one in (*some, *others)}
