"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat in all its meanings, and the deadlines behind it.

The order of checks is Kafka's, for clients tell errors apart. What is logged stands in `group`; a heartbeat is decided
in `heartbeats`, its target in `targets`, its next assignment in `reconciling`, expressions in `expressions`. Between
this protocol and the classic one a group moves by what `migration` says.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from coordinator.groups.consumer.answers import HeartbeatAnswer, ShownConsumerGroup, described, left, refused, told
from coordinator.groups.consumer.expressions import Expressions
from coordinator.groups.consumer.fencing import records_without
from coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from coordinator.groups.consumer.heartbeats import ConsumerHeartbeats, Said, known_static
from coordinator.groups.consumer.log_entries import current_assignment
from coordinator.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
)
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.consumer.soft_state import RETRY_MS, Resolution
from coordinator.groups.deadline import DeadlineKey, DeadlineKind
from coordinator.groups.seen.listing import Shown
from coordinator.machine import AnyOutcome, Outcome, Record, Ticket
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import DescribedConsumerGroup


class ClassicSide(Protocol):
    """What the consumer protocol needs of the classic one."""

    def has(self, group_id: str) -> bool:
        """Whether there is a group of another protocol that has this id."""

    def taken_over(self, group_id: str, outcome: AnyOutcome) -> ConsumerGroup:
        """A classic group as a consumer group, with the records that make it one. Raises `Refusal`."""

    def let_go(self, group_id: str, outcome: AnyOutcome, now_ms: int) -> None:
        """A classic group that was taken over is about to be one no more: who waits in it is told to come again."""

    def downgraded(
        self, group: ConsumerGroup, gone: Iterable[ConsumerMember], outcome: AnyOutcome, now_ms: int
    ) -> bool:
        """If all that would be left without the members who are `gone` speak the classic protocol, and the settings
        allow it: make it a classic group. Whether it was."""


class ConsumerProtocol:
    """The operations of the protocol over the groups of one shard."""

    def __init__(self, shard: ConsumerShard, classic: ClassicSide) -> None:
        self._shard = shard
        self._soft = shard.soft
        self._classic = classic
        self._expressions = Expressions(shard)
        self.heartbeats = ConsumerHeartbeats(shard, self._expressions)

    # -- what the log says -----------------------------------------------------------------------------------

    def restore(self, now_ms: int) -> None:
        """The log was replayed: members have a session's time to show up."""
        self._shard.groups.gone.clear()
        for group in self._shard.groups.by_id.values():
            for member in group.members.values():
                self._expect(group.group_id, member.member_id, now_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._soft.follow_state(group.group_id, member, now_ms)

    def follow(self) -> None:
        """What was written is replayed: nothing is waited for of members who are gone, unless they are back."""
        groups = self._shard.groups
        for group_id, member_id in groups.gone:
            group = groups.by_id.get(group_id)
            if group is None:
                self._soft.forget_group(group_id)
            if group is None or member_id not in group.members:
                self._soft.forget_member(group_id, member_id)
        groups.gone.clear()

    def _expect(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._soft.expect(group_id, member_id, now_ms + self._shard.settings.session_timeout_ms(group_id))

    # -- ConsumerGroupHeartbeat ------------------------------------------------------------------------------

    def heartbeat(self, said: Said, ticket: Ticket[HeartbeatAnswer], now_ms: int) -> Outcome[HeartbeatAnswer]:
        """A member comes, stays or leaves."""
        outcome: Outcome[HeartbeatAnswer] = Outcome()
        try:
            if said.epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
                answer = self._leave(said, outcome, now_ms)
            else:
                answer = self._beat(said, outcome, now_ms)
        except Refusal as refusal:
            return Outcome(answers=[(ticket, refused(refusal))])
        outcome.answers.append((ticket, answer))
        return outcome

    def _beat(self, said: Said, outcome: AnyOutcome, now_ms: int) -> HeartbeatAnswer:
        group_id = said.group_id
        joins = said.epoch == JOINING_EPOCH
        group = self._group(group_id, outcome, joins=joins)
        self.heartbeats.check_room(group, said.member_id, said.instance_id)
        records = list(outcome.records)
        step = self.heartbeats.subscribed(group, said, records, now_ms, joins=joins)
        try:
            self.heartbeats.reconcile(group, step, said.owned, now_ms)
        except Refusal:
            if step.resolution is not None:
                self._expressions.failed(step.resolution)
            raise
        outcome.records = step.records
        member = step.member
        if self._shard.find(group_id) is None:
            self._classic.let_go(group_id, outcome, now_ms)
        self._expect(group_id, member.member_id, now_ms)
        interval_ms = self._shard.settings.heartbeat_interval_ms(group_id)
        with_assignment = joins or said.is_full or member.assigned != step.before.assigned
        return HeartbeatAnswer(told(member, interval_ms, with_assignment=with_assignment), step.resolution)

    def _group(self, group_id: str, outcome: AnyOutcome, *, joins: bool) -> ConsumerGroup:
        group = self._shard.find(group_id)
        if group is not None:
            return group
        if not joins:
            is_classic = self._classic.has(group_id)
            sentence = "Group {} is not a consumer group." if is_classic else "Consumer group {} not found."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence.format(group_id))
        if self._classic.has(group_id):
            return self._classic.taken_over(group_id, outcome)
        return ConsumerGroup(group_id)

    def _leave(self, said: Said, outcome: AnyOutcome, now_ms: int) -> HeartbeatAnswer:
        group = self._shard.existing(said.group_id, is_classic=self._classic.has(said.group_id))
        if said.instance_id is None:
            member = self.known(group, said.member_id)
        else:
            member = known_static(group.static_member(said.instance_id), said.member_id, said.instance_id)
            if said.epoch == LEAVING_STATIC_EPOCH:
                outcome.records = [current_assignment(group.group_id, member.away())]
                return left(said.member_id, said.epoch)
        self.fence(group, [member], outcome, now_ms)
        return left(said.member_id, said.epoch)

    def known(self, group: ConsumerGroup, member_id: str) -> ConsumerMember:
        """A member of a group. Raises `Refusal`."""
        member = group.members.get(member_id)
        if member is None:
            sentence = f"Member {member_id} is not a member of group {group.group_id}."
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
        return member

    def fence(self, group: ConsumerGroup, members: Iterable[ConsumerMember], outcome: AnyOutcome, now_ms: int) -> None:
        """Members go. If they are alive after all, UNKNOWN_MEMBER_ID makes them join afresh."""
        gone = list({member.member_id: member for member in members}.values())
        if gone and not self._classic.downgraded(group, gone, outcome, now_ms):
            outcome.records = [*outcome.records, *records_without(self._shard, group, gone)]

    # -- regular expressions ---------------------------------------------------------------------------------

    def resolved(self, asked: Resolution, found: Mapping[str, frozenset[str]] | None, now_ms: int) -> list[Record]:
        """What expressions stand for; None where that could not be found out, or not be kept."""
        if found is None:
            self._expressions.postponed(asked, now_ms)
            return []
        return self._expressions.resolved(asked, found)

    # -- administration --------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> ShownConsumerGroup:
        """One group, or why not."""
        try:
            group = self._shard.existing(group_id, is_classic=self._classic.has(group_id))
        except Refusal as refusal:
            refused = DescribedConsumerGroup(group_id=group_id, error_code=refusal.error, error_message=refusal.message)
            return Shown(refused)
        return described(group, self._shard.topics, self._shard.settings.assignors[0])

    def listed(self, states: frozenset[ConsumerGroupState]) -> list[tuple[str, ConsumerGroupState]]:
        """The ids of groups in these states."""
        if not states:
            return []
        known = ((group.group_id, group.state) for group in self._shard.groups.by_id.values())
        return [one for one in known if one[1] in states]

    # -- deadlines -------------------------------------------------------------------------------------------

    def expire(self, key: DeadlineKey, now_ms: int, outcome: AnyOutcome) -> None:
        """Act on one deadline that has passed."""
        group = self._shard.groups.by_id.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None:
            # The log took no record of it: what was noted of it goes with the session of who asked.
            self._soft.forget_group(key.group_id)
        if group is None or member is None or key.group_id in self._shard.groups.unreadable:
            return
        away = member.epoch == LEAVING_STATIC_EPOCH
        if key.kind is DeadlineKind.CONSUMER_REBALANCE and (
            away or member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            return
        # Should the log refuse: once more in a while. The replay of what it takes clears this.
        self._soft.expect(key.group_id, key.member_id, now_ms + RETRY_MS)
        self.fence(group, [member], outcome, now_ms)
        outcome.reason = outcome.reason or f"member {key.member_id} of group {key.group_id} was given up"
