"""Members of a consumer group that speak the classic protocol: what JoinGroup, SyncGroup, Heartbeat, LeaveGroup mean.

A join says what the member wants and owns, as a heartbeat of the other protocol would; the generation is its epoch. The
coordinator has computed the assignment: nobody leads, and SyncGroup only fetches. REBALANCE_IN_PROGRESS makes a member
give back what it is to lose, or take what has become free, by joining again.
"""

from coordinator.groups.answers import heartbeat, join_refused, sync_refused
from coordinator.groups.consumer.embedded import (
    ConsumerProtocolSubscription,
    assignment_bytes,
    ids_of,
    read_subscription,
)
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.heartbeats import Said, known_static
from coordinator.groups.consumer.member import ClassicFacet, ConsumerMember, MemberState
from coordinator.groups.consumer.protocol import ConsumerProtocol
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.joining import MEMBER_ID_REQUIRED_SINCE, Caller
from coordinator.groups.membership import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.migration import Migration
from coordinator.machine import AnyOutcome, Outcome, Ticket
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class ClassicMembers:
    """The operations of the classic protocol on consumer groups of one shard."""

    def __init__(self, shard: ConsumerShard, consumers: ConsumerProtocol, migration: Migration) -> None:
        self._shard = shard
        self._consumers = consumers
        self._migration = migration

    # -- JoinGroup -------------------------------------------------------------------------------------------

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_id: str,
        ticket: Ticket[JoinGroupResponse],
        now_ms: int,
    ) -> Outcome[JoinGroupResponse]:
        """A member comes, or is to give something back or take it. It never waits for others."""
        outcome: Outcome[JoinGroupResponse] = Outcome()
        member_id = request.member_id or fresh_id
        try:
            answer = self._join(group, request, caller, member_id, outcome, now_ms)
        except Refusal as refusal:
            return Outcome(answers=[(ticket, join_refused(refusal.error, request.member_id))])
        outcome.answers.append((ticket, answer))
        return outcome

    def _join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        member_id: str,
        outcome: AnyOutcome,
        now_ms: int,
    ) -> JoinGroupResponse:
        self._check(group, request, member_id)
        instance_id = request.group_instance_id
        if not request.member_id and instance_id is None and caller.api_version >= MEMBER_ID_REQUIRED_SINCE:
            return join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        subscription = _subscription_of(request)
        owned = ids_of(subscription.owned_partitions, self._shard.topics)
        said = _said(request, caller, member_id, subscription)
        replaced = group.static_member(instance_id)
        records = list(outcome.records)
        joins = instance_id is None or not request.member_id
        step = self._consumers.heartbeats.subscribed(group, said, records, now_ms, joins=joins)
        if replaced is not None and self._migration.may_replace(group, replaced):
            stale = group.assignment_epoch < step.group_epoch
            if not stale:
                target = group.target_of(member_id, instance_id)
                heartbeats = self._consumers.heartbeats
                heartbeats.reconcile_to(group, step, owned, group.assignment_epoch, target, now_ms)
            outcome.records = step.records
            self._migration.replaced(group, replaced, step.member, outcome, now_ms, rebalance=stale)
        else:
            self._consumers.heartbeats.reconcile(group, step, owned, now_ms)
            outcome.records = step.records
            self._expect(group, step.member, now_ms)
            self._shard.soft.joined(group.group_id, member_id, now_ms + step.member.rebalance_timeout_ms)
        return JoinGroupResponse(
            generation_id=step.member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=_protocol_of(step.member)[0],
            leader="",
            member_id=member_id,
            members=[],
        )

    def _check(self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
        """Raises `Refusal`."""
        if self._shard.settings.migration_policy == "disabled":
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group migration is disabled.")
        self._consumers.heartbeats.check_room(group, member_id, request.group_instance_id)
        supported = [
            all(one.name in dict(_facet(member).protocols) for member in group.classic_members())
            for one in request.protocols
        ]
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not any(supported):
            sentence = f"Member {member_id}'s protocols are not supported."
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, sentence)

    def _expect(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        self._shard.soft.expect(group.group_id, member.member_id, now_ms + _facet(member).session_timeout_ms)

    # -- SyncGroup -------------------------------------------------------------------------------------------

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket[SyncGroupResponse], now_ms: int
    ) -> Outcome[SyncGroupResponse]:
        """What the member has."""
        try:
            answer = self._sync(group, request, now_ms)
        except Refusal as refusal:
            answer = sync_refused(refusal.error)
        return Outcome(answers=[(ticket, answer)])

    def _sync(self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> SyncGroupResponse:
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        name, metadata = _protocol_of(member)
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "another protocol than that of the join")
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(group, member, now_ms)
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer assignment")
        self._shard.soft.synced(group.group_id, member.member_id)
        self._expect(group, member, now_ms)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, self._shard.topics, metadata),
        )

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        self._shard.soft.expect_join(group.group_id, member.member_id, now_ms + member.rebalance_timeout_ms)

    def _member(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        """The member that asks. Raises `Refusal`."""
        if instance_id is None:
            member = self._consumers.known(group, member_id)
        else:
            member = known_static(group.static_member(instance_id), member_id, instance_id)
        if member.classic is None:
            sentence = f"Member {member_id} does not use the classic protocol."
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
        if generation != member.epoch:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"the generation of the member is {member.epoch}")
        return member

    # -- Heartbeat -------------------------------------------------------------------------------------------

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket[HeartbeatResponse], now_ms: int
    ) -> Outcome[HeartbeatResponse]:
        """REBALANCE_IN_PROGRESS where joining again would change something."""
        error = ErrorCode.NONE
        try:
            member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        except Refusal as refusal:
            return Outcome(answers=[(ticket, heartbeat(refusal.error))])
        self._expect(group, member, now_ms)
        released = member.state is MemberState.UNRELEASED_PARTITIONS and not self._waits(group, member)
        if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or released:
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._expect_join(group, member, now_ms)
        return Outcome(answers=[(ticket, heartbeat(error))])

    def _waits(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether something that the member is to have has not been given back yet."""
        return any(
            group.is_owned(topic_id, index)
            for topic_id, indexes in group.targets.get(member.member_id, {}).items()
            for index in indexes
            if index not in member.assigned.get(topic_id, ())
        )

    # -- LeaveGroup ------------------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket[LeaveGroupResponse], now_ms: int
    ) -> Outcome[LeaveGroupResponse]:
        """Members go, of whichever protocol."""
        outcome: Outcome[LeaveGroupResponse] = Outcome()
        gone: list[ConsumerMember] = []
        members = []
        for identity in request.members:
            error = ErrorCode.NONE
            try:
                gone.append(self._leaving(group, identity))
            except Refusal as refusal:
                error = refusal.error
            members.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        self._consumers.fence(group, gone, outcome, now_ms)
        outcome.answers.append((ticket, LeaveGroupResponse(members=members)))
        return outcome

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        instance_id = identity.group_instance_id
        if instance_id is None:
            return self._consumers.known(group, identity.member_id)
        member = group.static_member(instance_id)
        if member is not None and not identity.member_id:
            # An administrator removes a static member by its instance id.
            return member
        return known_static(member, identity.member_id, instance_id)


def _said(
    request: JoinGroupRequest, caller: Caller, member_id: str, subscription: ConsumerProtocolSubscription
) -> Said:
    timeout_ms = request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
    protocols: dict[str, bytes] = {}
    for one in request.protocols:
        protocols.setdefault(one.name, bytes(one.metadata))
    return Said(
        group_id=request.group_id,
        member_id=member_id,
        epoch=-1,
        client_id=caller.client_id,
        client_host=caller.client_host,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicFacet(request.session_timeout_ms, tuple(protocols.items())),
    )


def _subscription_of(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Raises `Refusal`."""
    try:
        return read_subscription(request.protocols[0].metadata)
    except ProtocolError:
        sentence = "Malformed embedded consumer protocol in subscription deserialization."
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, sentence) from None


def _facet(member: ConsumerMember) -> ClassicFacet:
    assert member.classic is not None
    return member.classic


def _protocol_of(member: ConsumerMember) -> tuple[str, bytes]:
    """The one the member likes best."""
    return _facet(member).protocols[0]
