"""How a group gets from one generation to the next.

Empty, Stable, CompletingRebalance → PreparingRebalance (all members are to join again) → CompletingRebalance (the
generation is fixed, its leader computes the assignment) → Stable; or → Empty where no member is left.

A rebalance waits for all members up to the longest rebalance timeout among them, then goes on without dynamic
members that did not come. Static ones keep their place until their session ends (KIP-345). A rebalance that begins
with an empty group waits for `group.initial.rebalance.delay.ms` instead (KIP-134).
"""

from collections.abc import Callable

from coordinator.groups.answers import join_refused, joined, sync_refused, synced
from coordinator.groups.assigning import Assigned, Assigning, assigning
from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines
from coordinator.groups.log_entries import empty_group
from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import GroupState, Member, Membership
from coordinator.groups.settings import GroupSettings
from coordinator.machine import AnyOutcome
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

RETRY_MS = 1_000


def answer_join(member: Member, answer: JoinGroupResponse, outcome: AnyOutcome) -> None:
    """Answer the JoinGroup that waits for this member, if one does."""
    if member.joining is not None:
        outcome.answers.append((member.joining, answer))
        member.joining = None


def answer_sync(member: Member, answer: SyncGroupResponse, outcome: AnyOutcome) -> None:
    """Answer the SyncGroup that waits for this member, if one does."""
    if member.syncing is not None:
        outcome.answers.append((member.syncing, answer))
        member.syncing = None


class Rebalance:
    """The transitions, over groups and deadlines that the coordinator owns."""

    def __init__(
        self, settings: GroupSettings, deadlines: GroupDeadlines, wrote: Callable[[bytes, LoggedGroup], None]
    ) -> None:
        """`wrote` is called with the value of a record about to be written, and what it will be read as."""
        self._settings = settings
        self.wrote = wrote
        self._assigning: dict[str, Assigning] = {}
        """By group: the record that is being made of what its leader said."""
        self._deadlines = deadlines

    # -- deadlines -------------------------------------------------------------------------------------------

    def expect(self, group: Membership, member_id: str, at_ms: int) -> None:
        """Set the time at which a member is given up."""
        self._deadlines.set(DeadlineKey(DeadlineKind.MEMBER, group.group_id, member_id), at_ms)

    def forget(self, group: Membership, member_id: str) -> None:
        """A member left or was replaced: the group waits for it no more."""
        self._deadlines.clear(DeadlineKey(DeadlineKind.MEMBER, group.group_id, member_id))

    def beat(self, group: Membership, member: Member, now_ms: int) -> None:
        """A sign of life."""
        self.expect(group, member.member_id, now_ms + member.session_timeout_ms)

    def forget_group(self, group: Membership) -> None:
        """The group is gone: so are all its deadlines."""
        for member_id in (*group.members, *group.pending):
            self.forget(group, member_id)
        self._deadlines.clear(DeadlineKey(DeadlineKind.JOIN, group.group_id))
        self._deadlines.clear(DeadlineKey(DeadlineKind.SYNC, group.group_id))
        self._forget_assigning(group)

    def settled(self, group: Membership) -> None:
        """The group's record was replayed: what it settled need not be waited for."""
        if group.state is GroupState.EMPTY:
            self._deadlines.clear(DeadlineKey(DeadlineKind.JOIN, group.group_id))
        if not group.unsynced:
            self._deadlines.clear(DeadlineKey(DeadlineKind.SYNC, group.group_id))

    # -- preparing -------------------------------------------------------------------------------------------

    def start_or_complete(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """A member came, changed or left: a new rebalance, or perhaps the end of the one under way."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_joined(group, now_ms, outcome)
        else:
            self.prepare(group, now_ms, outcome)

    def prepare(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """All members are to join again; heartbeats tell them so."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                group.assign(member, b"")
                if member.syncing is not None:
                    answer_sync(member, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), outcome)
                    self.beat(group, member, now_ms)
        self._forget_assigning(group)
        group.unsynced.clear()
        self._deadlines.clear(DeadlineKey(DeadlineKind.SYNC, group.group_id))
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
        if group.is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.member_came = False
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._wait_for_joins(group, now_ms + delay_ms)
        elif group.all_joined:
            self.complete(group, now_ms, outcome)
        else:
            self._wait_for_joins(group, now_ms + group.rebalance_timeout_ms)

    def _wait_for_joins(self, group: Membership, until_ms: int) -> None:
        self._deadlines.set(DeadlineKey(DeadlineKind.JOIN, group.group_id), until_ms)

    def complete_if_joined(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """The initial rebalance ends by its delay, every other as soon as no member is missing."""
        if group.state is GroupState.PREPARING_REBALANCE and not group.is_initial and group.all_joined:
            self.complete(group, now_ms, outcome)

    def joins_are_due(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """The time for joining is over, unless the group is new and members keep coming."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.is_initial and group.member_came and group.initial_remaining_ms:
            group.member_came = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, group.initial_remaining_ms)
            group.initial_remaining_ms -= delay_ms
            self._wait_for_joins(group, now_ms + delay_ms)
        else:
            self.complete(group, now_ms, outcome)

    # -- the next generation ---------------------------------------------------------------------------------

    def complete(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """Fix the next generation and answer all members, or find the group empty."""
        self._deadlines.clear(DeadlineKey(DeadlineKind.JOIN, group.group_id))
        absent = [m for m in group.members.values() if m.joining is None and m.instance_id is None]
        for member in absent:
            group.remove(member.member_id)
            self.forget(group, member.member_id)
        if not group.members:
            self._end_empty(group, now_ms, outcome)
        elif group.elect():
            self._begin_generation(group, now_ms, outcome)
        else:
            # Only static members, none of which came back: wait for them, or for the ends of their sessions.
            self._wait_for_joins(group, now_ms + max(group.rebalance_timeout_ms, 1))

    def _end_empty(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        outcome.records = [*outcome.records, empty_group(group, group.generation + 1, now_ms)]
        # Should the log refuse: once more in a while. `settled` clears this.
        self._wait_for_joins(group, now_ms + RETRY_MS)
        outcome.reason = outcome.reason or f"group {group.group_id} is empty"

    def _begin_generation(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        group.generation += 1
        group.protocol = group.select_protocol()
        group.forget_subscriptions()
        group.enter(GroupState.COMPLETING_REBALANCE, now_ms)
        group.unsynced = dict.fromkeys(group.members)
        for member in group.members.values():
            answer_join(member, joined(group, member.member_id), outcome)
            member.is_new = False
            self.beat(group, member, now_ms)
        until_ms = now_ms + group.rebalance_timeout_ms
        self._deadlines.set(DeadlineKey(DeadlineKind.SYNC, group.group_id), until_ms)
        outcome.reason = outcome.reason or f"group {group.group_id} generation {group.generation}"

    # -- assignments -----------------------------------------------------------------------------------------

    def assign(self, group: Membership, assignments: dict[str, bytes], now_ms: int, outcome: AnyOutcome) -> None:
        """The leader has spoken. The record makes the group stable; waiting members are answered when it is durable."""
        self._assigning[group.group_id] = assigning(group, assignments)
        self.go_on_assigning(group, now_ms, outcome)

    def go_on_assigning(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """The next step of that; a small group needs one."""
        steps = self._assigning.get(group.group_id)
        if steps is None:
            return
        try:
            next(steps)
        except StopIteration as done:
            self._forget_assigning(group)
            self._assigned(group, done.value, now_ms, outcome)
        else:
            self._deadlines.set(DeadlineKey(DeadlineKind.ASSIGN, group.group_id), now_ms + 1)

    def _forget_assigning(self, group: Membership) -> None:
        self._assigning.pop(group.group_id, None)
        self._deadlines.clear(DeadlineKey(DeadlineKind.ASSIGN, group.group_id))

    def _assigned(self, group: Membership, made: Assigned, now_ms: int, outcome: AnyOutcome) -> None:
        self.wrote(made.value, made.group)
        outcome.records = [*outcome.records, made.record]
        for member in group.members.values():
            if member.syncing is not None:
                answer_sync(member, synced(group, made.group.members[member.member_id].assignment), outcome)
                self.beat(group, member, now_ms)

    def has_synced(self, group: Membership, member_id: str) -> None:
        """A member fetched its assignment or waits for it."""
        group.unsynced.pop(member_id, None)
        self.settled(group)

    def syncs_are_due(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        """Members that never sent SyncGroup are removed, and the others join again."""
        assert group.unsynced, "without any left, nothing is waited for: see `settled` and `prepare`"
        if group.group_id in self._assigning:
            # The leader has spoken; give it the moment that takes.
            self._deadlines.set(DeadlineKey(DeadlineKind.SYNC, group.group_id), now_ms + RETRY_MS)
            return
        for member_id in list(group.unsynced):
            group.remove(member_id)
            self.forget(group, member_id)
        self.prepare(group, now_ms, outcome)

    # -- members that go -------------------------------------------------------------------------------------

    def session_is_over(self, group: Membership, member_id: str, now_ms: int, outcome: AnyOutcome) -> None:
        """A member was not heard of in time. One that waits for the others is excused, unless it is new."""
        member = group.members.get(member_id)
        if member_id in group.pending:
            group.remove(member_id)
            self._complete_even_initial(group, now_ms, outcome)
        elif member is None:
            return
        elif member.is_new or (member.joining is None and member.syncing is None):
            self.drop(group, member, outcome)
            if group.state is GroupState.PREPARING_REBALANCE:
                self._complete_even_initial(group, now_ms, outcome)
            else:
                self.prepare(group, now_ms, outcome)

    def drop(self, group: Membership, member: Member, outcome: AnyOutcome) -> None:
        """Remove a member. If it is alive after all, UNKNOWN_MEMBER_ID makes it join afresh."""
        answer_join(member, join_refused(ErrorCode.UNKNOWN_MEMBER_ID), outcome)
        answer_sync(member, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID), outcome)
        self.forget(group, member.member_id)
        group.remove(member.member_id)

    def _complete_even_initial(self, group: Membership, now_ms: int, outcome: AnyOutcome) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            self.complete(group, now_ms, outcome)
