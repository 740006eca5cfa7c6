"""The streams protocol (KIP-1071): StreamsGroupHeartbeat in all its meanings, and the deadlines behind it.

The order of checks is Kafka's, for clients tell errors apart. What is logged stands in `group`; a heartbeat is decided
in `heartbeats`, its topics in `configured`, its target in `targets`, its next tasks in `reconciling`.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.deadline import DeadlineKey, DeadlineKind
from coordinator.groups.log_entries import group_tombstone
from coordinator.groups.seen.listing import Shown
from coordinator.groups.streams.answers import (
    ShownStreamsGroup,
    StreamsAnswer,
    described,
    endpoints_of,
    left,
    refused,
    told,
)
from coordinator.groups.streams.configured import ConfiguredTopology, Problem, Status
from coordinator.groups.streams.group import StreamsGroup, StreamsGroupState
from coordinator.groups.streams.heartbeats import StreamsHeartbeats, StreamsSaid, StreamsStep
from coordinator.groups.streams.log_entries import group_facts, member_tombstones
from coordinator.groups.streams.member import JOINING_EPOCH, LEAVING_EPOCH, MemberState, StreamsMember
from coordinator.groups.streams.shard import StreamsShard
from coordinator.groups.streams.soft_state import RETRY_MS
from coordinator.machine import AnyOutcome, Outcome, Record, Ticket
from protocol.errors import ErrorCode
from protocol.messages.streams.groups import DescribedStreamsGroup

ListedStates = list[tuple[str, StreamsGroupState]]
"""Group ids, and the states of these groups."""


class StreamsProtocol:
    """The operations of the protocol over the groups of one shard."""

    def __init__(self, shard: StreamsShard, other: Callable[[str], bool | None]) -> None:
        """`other` says of a group id whether there is a group of another protocol that a streams group may take the
        place of, for it is a classic one without members; None where there is none."""
        self._shard = shard
        self._soft = shard.soft
        self._other = other
        self._heartbeats = StreamsHeartbeats(shard)

    # -- what the log says -----------------------------------------------------------------------------------

    def restore(self, now_ms: int) -> None:
        """The log was replayed: members have a session's time to show up."""
        self._shard.groups.gone.clear()
        for group in self._shard.groups.by_id.values():
            for member in group.members.values():
                self._expect(group.group_id, member.member_id, now_ms)
                if member.state is MemberState.UNREVOKED_TASKS:
                    self._soft.follow_state(group.group_id, member, now_ms)

    def follow(self) -> None:
        """What was written is replayed: nothing is waited for of members who are gone, unless they are back."""
        groups = self._shard.groups
        for group_id, member_id in groups.gone:
            group = groups.by_id.get(group_id)
            if group is None:
                self._soft.forget_group(group_id)
            elif not group.members:
                self._soft.shutdowns.pop(group_id, None)
                self._soft.end_delay(group_id)
            if group is None or member_id not in group.members:
                self._soft.forget_member(group_id, member_id)
        groups.gone.clear()

    def _expect(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._soft.expect(group_id, member_id, now_ms + self._shard.settings.session_timeout_ms(group_id))

    # -- StreamsGroupHeartbeat -------------------------------------------------------------------------------

    def heartbeat(self, said: StreamsSaid, ticket: Ticket[StreamsAnswer], now_ms: int) -> Outcome[StreamsAnswer]:
        """A member comes, stays or leaves."""
        outcome: Outcome[StreamsAnswer] = Outcome()
        try:
            leaves = said.epoch == LEAVING_EPOCH
            answer = self._leave(said, outcome) if leaves else self._beat(said, outcome, now_ms)
        except Refusal as refusal:
            return Outcome(answers=[(ticket, refused(refusal))])
        outcome.answers.append((ticket, answer))
        return outcome

    def _beat(self, said: StreamsSaid, outcome: AnyOutcome, now_ms: int) -> StreamsAnswer:
        group_id = said.group_id
        joins = said.epoch == JOINING_EPOCH
        self.follow()
        records: list[Record] = []
        group = self._group(group_id, records, joins=joins)
        step = self._heartbeats.beat(group, said, records, now_ms, joins=joins)
        outcome.records = step.records
        self._expect(group_id, step.member.member_id, now_ms)
        self._shutdown(group, said, step)
        with_tasks = joins or step.member.assigned != step.before.assigned
        response = told(
            step.member,
            self._shard.settings.heartbeat_interval_ms(group_id),
            step.problems,
            with_tasks=with_tasks,
        )
        response.endpoint_information_epoch = self._endpoint_epoch(group, step.member, changed=with_tasks)
        if response.endpoint_information_epoch != said.endpoint_epoch:
            response.partitions_by_user_endpoint = endpoints_of(group, step.member, step.topology, self._shard.topics)
        return StreamsAnswer(response, step.configured.to_create)

    def _group(self, group_id: str, records: list[Record], *, joins: bool) -> StreamsGroup:
        group = self._shard.find(group_id)
        if group is not None:
            return group
        may_replace = self._other(group_id)
        if may_replace is None:
            if joins:
                return StreamsGroup(group_id)
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if not joins or not may_replace:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        records.append(group_tombstone(group_id))
        return StreamsGroup(group_id)

    def _shutdown(self, group: StreamsGroup, said: StreamsSaid, step: StreamsStep) -> None:
        """One member has requested that the whole application stops: all hear of it until the group is empty."""
        member_id = self._soft.shutdowns.get(group.group_id)
        if said.shuts_down and member_id is None:
            member_id = said.member_id
            if group.group_id in self._shard.groups.by_id:
                self._soft.shutdowns[group.group_id] = member_id
        if member_id is not None:
            sentence = (
                f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
                "application."
            )
            step.problems.append(Problem(Status.SHUTDOWN_APPLICATION, sentence))

    def _endpoint_epoch(self, group: StreamsGroup, member: StreamsMember, *, changed: bool) -> int:
        epoch = self._soft.endpoint_epochs.get(group.group_id, 0)
        if changed and member.endpoint is not None and group.group_id in self._shard.groups.by_id:
            epoch += 1
            self._soft.endpoint_epochs[group.group_id] = epoch
        return epoch

    def _leave(self, said: StreamsSaid, outcome: AnyOutcome) -> StreamsAnswer:
        group = self._shard.existing(said.group_id, is_other=self._other(said.group_id) is not None)
        member = group.members.get(said.member_id)
        if member is None:
            sentence = f"Member {said.member_id} is not a member of group {group.group_id}."
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
        self._fence(group, member, outcome)
        return left(said.member_id, said.epoch)

    def _fence(self, group: StreamsGroup, member: StreamsMember, outcome: AnyOutcome) -> None:
        """A member goes: the others get a new target with their next heartbeats. If it is alive after all,
        UNKNOWN_MEMBER_ID makes it join afresh."""
        facts = replace(group.facts, epoch=group.epoch + 1)
        gone = member_tombstones(group.group_id, member.member_id)
        outcome.records = [*outcome.records, *gone, group_facts(group.group_id, facts)]

    # -- administration --------------------------------------------------------------------------------------

    def describe(self, group_id: str, ticket: Ticket[ShownStreamsGroup], now_ms: int) -> Outcome[ShownStreamsGroup]:
        """Answers a DescribedStreamsGroup, and what makes its members."""
        return Outcome(answers=[(ticket, self._described(group_id))])

    def _described(self, group_id: str) -> ShownStreamsGroup:
        try:
            group = self._shard.existing(group_id, is_other=self._other(group_id) is not None)
        except Refusal as refusal:
            refused = DescribedStreamsGroup(group_id=group_id, error_code=refusal.error, error_message=refusal.message)
            return Shown(refused)
        seen = self._soft.seen.get(group_id)
        return described(group, ConfiguredTopology() if seen is None else seen.configured)

    def list(
        self, states: frozenset[StreamsGroupState], ticket: Ticket[ListedStates], now_ms: int
    ) -> Outcome[ListedStates]:
        """Answers the ids of the groups in these states."""
        groups = self._shard.groups.by_id.values() if states else ()
        known = ((group.group_id, group.state) for group in groups)
        return Outcome(answers=[(ticket, [one for one in known if one[1] in states])])

    # -- deadlines -------------------------------------------------------------------------------------------

    def expire(self, key: DeadlineKey, now_ms: int, outcome: AnyOutcome) -> None:
        """Act on one deadline that has passed."""
        group = self._shard.groups.by_id.get(key.group_id)
        if key.kind is DeadlineKind.STREAMS_ASSIGN:
            self._soft.end_delay(key.group_id)
            if group is not None and key.group_id not in self._shard.groups.unreadable:
                outcome.records = self._heartbeats.delayed_target(group, now_ms)
                outcome.reason = f"the members of group {key.group_id} get their first tasks"
            return
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None or key.group_id in self._shard.groups.unreadable:
            self._soft.forget_member(key.group_id, key.member_id)
            return
        if key.kind is DeadlineKind.STREAMS_REBALANCE and member.state is not MemberState.UNREVOKED_TASKS:
            return
        # Should the log refuse: once more in a while. The replay of what it takes clears this.
        self._soft.expect(key.group_id, key.member_id, now_ms + RETRY_MS)
        self._fence(group, member, outcome)
        outcome.reason = outcome.reason or f"member {key.member_id} of group {key.group_id} was given up"
