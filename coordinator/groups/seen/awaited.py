"""What a group waits for, whom it waits for, and until when: of all four protocols. Nothing is changed by looking.

Kafka's protocol tells the state of a group, and not who is missing. The coordinator knows it: it has a deadline for
each member that it has to hear of, and one for each step of a rebalance.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.member import MemberState as ConsumerMemberState
from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines
from coordinator.groups.logged import GroupLedger
from coordinator.groups.membership import GroupState, Member, Membership
from coordinator.groups.settings import GroupSettings
from coordinator.groups.share.group import ShareGroup
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import MemberState as StreamsMemberState


@dataclass(frozen=True, slots=True)
class AwaitedMember:
    """One member, as its coordinator knows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    given_up_at_ms: int | None
    """Unless it is heard of before. None while it waits for the others: it need say nothing meanwhile."""
    is_awaited: bool = False
    """The others wait for a request of it."""
    awaited_until_ms: int | None = None
    """How long they wait for it alone; `AwaitedGroup.until_ms` is for all."""


@dataclass(frozen=True, slots=True)
class AwaitedGroup:
    """One group."""

    kind: str
    """classic, consumer, streams or share."""
    state: str
    since_ms: int | None
    """Of the state; known of the classic protocol alone."""
    until_ms: int | None
    """When a rebalance of the classic protocol goes on without those who are missing."""
    is_initial: bool
    """It waits for the first members to come, for as long as `group.initial.rebalance.delay.ms` says."""
    newcomers: int
    """Who got a member id and has not come back with it yet (KIP-394)."""
    members: Iterator[AwaitedMember]
    """Each is looked at when it is its turn: there may be thousands."""


class AwaitedGroups:
    """Of one shard."""

    def __init__(
        self,
        settings: GroupSettings,
        deadlines: GroupDeadlines,
        memberships: Mapping[str, Membership],
        ledger: GroupLedger,
    ) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._memberships = memberships
        self._ledger = ledger

    def of(self, group_id: str) -> AwaitedGroup | None:
        """None where there is no such group with members, nor one that keeps what it had."""
        led = self._ledger.led_here(group_id)
        if isinstance(led, ConsumerGroup):
            return self._settled("consumer", led.state.value, self._of_consumers(led))
        if led is not None:
            return self._settled("streams", led.state.value, self._of_streams(led))
        share = self._ledger.shares.by_id.get(group_id)
        if share is not None:
            return self._settled("share", share.state.value, self._of_share(share))
        classic = self._memberships.get(group_id)
        return None if classic is None else self._of_classic(classic)

    @staticmethod
    def _settled(kind: str, state: str, members: Iterator[AwaitedMember]) -> AwaitedGroup:
        return AwaitedGroup(kind, state, None, None, is_initial=False, newcomers=0, members=members)

    def _at(self, kind: DeadlineKind, group_id: str, member_id: str = "") -> int | None:
        return self._deadlines.get(DeadlineKey(kind, group_id, member_id))

    # -- the classic protocol --------------------------------------------------------------------------------

    def _of_classic(self, group: Membership) -> AwaitedGroup:
        kinds = {
            GroupState.PREPARING_REBALANCE: DeadlineKind.JOIN,
            GroupState.COMPLETING_REBALANCE: DeadlineKind.SYNC,
        }
        step = kinds.get(group.state)
        return AwaitedGroup(
            "classic",
            group.state.value,
            group.state_timestamp_ms if group.state_timestamp_ms >= 0 else None,
            None if step is None else self._at(step, group.group_id),
            group.is_initial,
            len(group.pending),
            (self._classic_member(group, member) for member in list(group.members.values())),
        )

    def _classic_member(self, group: Membership, member: Member) -> AwaitedMember:
        is_awaited = False
        if group.state is GroupState.PREPARING_REBALANCE:
            is_awaited = member.joining is None
        elif group.state is GroupState.COMPLETING_REBALANCE:
            is_awaited = member.member_id == group.leader and member.member_id in group.unsynced
        waits = member.joining is not None or member.syncing is not None
        return AwaitedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            None if waits else self._at(DeadlineKind.MEMBER, group.group_id, member.member_id),
            is_awaited,
        )

    # -- protocols that the broker leads ---------------------------------------------------------------------

    def _of_consumers(self, group: ConsumerGroup) -> Iterator[AwaitedMember]:
        its_timeout_ms = self._settings.consumer.session_timeout_ms(group.group_id)
        for one in list(group.members.values()):
            until_ms = self._consumer_is_due(group.group_id, one)
            yield AwaitedMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                its_timeout_ms if one.classic is None else one.classic.session_timeout_ms,
                self._at(DeadlineKind.CONSUMER_SESSION, group.group_id, one.member_id),
                until_ms is not None or one.state is ConsumerMemberState.UNREVOKED_PARTITIONS,
                until_ms,
            )

    def _consumer_is_due(self, group_id: str, member: ConsumerMember) -> int | None:
        """It has to give back partitions, or, in the classic protocol, to join or to sync."""
        kinds = (DeadlineKind.CONSUMER_REBALANCE, DeadlineKind.CONSUMER_JOIN, DeadlineKind.CONSUMER_SYNC)
        times = [at for kind in kinds if (at := self._at(kind, group_id, member.member_id)) is not None]
        return min(times, default=None)

    def _of_streams(self, group: StreamsGroup) -> Iterator[AwaitedMember]:
        timeout_ms = self._settings.streams.session_timeout_ms(group.group_id)
        for one in list(group.members.values()):
            yield AwaitedMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                timeout_ms,
                self._at(DeadlineKind.STREAMS_SESSION, group.group_id, one.member_id),
                one.state is StreamsMemberState.UNREVOKED_TASKS,
                self._at(DeadlineKind.STREAMS_REBALANCE, group.group_id, one.member_id),
            )

    def _of_share(self, group: ShareGroup) -> Iterator[AwaitedMember]:
        timeout_ms = self._settings.share.session_timeout_ms(group.group_id)
        for one in list(group.members.values()):
            ends_ms = self._at(DeadlineKind.SHARE_SESSION, group.group_id, one.member_id)
            yield AwaitedMember(one.member_id, None, one.client_id, one.client_host, timeout_ms, ends_ms)
