"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the deadlines behind them.

Who is in a group stands in `membership`, how it gets to its next generation in `rebalance`, who may join in `joining`.
A request that has to wait for other members leaves its ticket with its member; one operation may release many answers.
Kafka's order of checks is kept, for clients tell errors apart.
"""

from collections.abc import Mapping

from coordinator.groups.answers import heartbeat, join_refused, sync_refused, synced, validate_member
from coordinator.groups.deadline import DeadlineKey, DeadlineKind
from coordinator.groups.growth import growth_by_assignments, growth_by_join
from coordinator.groups.held import Held, Room
from coordinator.groups.joining import Caller, Join, Joining
from coordinator.groups.log_entries import empty_group
from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import GroupState, Membership
from coordinator.groups.rebalance import Rebalance, answer_sync
from coordinator.groups.settings import GroupSettings
from coordinator.machine import AnyOutcome, OperationRefused, Outcome, Ticket
from protocol.errors import ErrorCode
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


class ClassicProtocol:
    """The operations of the protocol over the groups of one shard."""

    def __init__(
        self, settings: GroupSettings, logged: Mapping[str, LoggedGroup], held: Held, rebalance: Rebalance
    ) -> None:
        self._settings = settings
        self._logged = logged
        self._held = held
        self._room = Room(settings, held)
        self.memberships: dict[str, Membership] = {}
        """Of groups that were asked for since the shard was loaded, or had members then."""
        self._rebalance = rebalance
        self._joining = Joining(settings, rebalance)

    # -- what the log says -----------------------------------------------------------------------------------

    def restore(self, logged: LoggedGroup, now_ms: int) -> None:
        """A group was loaded: its members have a session's time to show up."""
        if not logged.members:
            return
        group = self.memberships[logged.group_id] = Membership.of(logged, self._held)
        for member in group.members.values():
            self._rebalance.beat(group, member, now_ms)
        if len(group.members) > self._settings.max_size:
            # The limit was lowered: let the members commit, join again, and find out who is out.
            self._rebalance.prepare(group, now_ms, Outcome())

    def follow(self, group_id: str, now_ms: int) -> None:
        """A record of this group was replayed: requests that wait for that go on."""
        group = self.memberships.get(group_id)
        if group is None:
            return
        logged = self._logged.get(group_id)
        if logged is None:
            self._forget(group)
        else:
            if group.group_id is not logged.group_id:
                self._share_id(group, logged)
            group.settle(logged, now_ms)
            self._rebalance.settled(group)

    def _share_id(self, group: Membership, logged: LoggedGroup) -> None:
        """Both are of one group: it is not to hold its id, which may be long, twice."""
        del self.memberships[group.group_id]
        group.group_id = logged.group_id
        self.memberships[logged.group_id] = group

    def find(self, group_id: str) -> Membership | None:
        """The group, unless its first record was refused: waiting requests were refused, and it never existed. Raises
        `OperationRefused` where its record cannot be read."""
        group = self.memberships.get(group_id)
        logged = self._logged.get(group_id)
        if logged is not None and not logged.is_readable:
            raise OperationRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        if logged is None:
            if group is not None:
                self._forget(group)
            return None
        if group is None:
            group = self.memberships[group_id] = Membership.of(logged, self._held)
        return group

    def state_of(self, logged: LoggedGroup) -> GroupState:
        """The state of a logged group."""
        if not logged.is_readable:
            return GroupState.UNKNOWN
        group = self.memberships.get(logged.group_id)
        return GroupState.EMPTY if group is None else group.state

    def adopt(self, group: Membership) -> None:
        """A group that was a consumer group; its record is about to be written."""
        before = self.memberships.get(group.group_id)
        if before is not None:
            self._forget(before)
        self.memberships[group.group_id] = group

    def _forget(self, group: Membership) -> None:
        self._rebalance.forget_group(group)
        group.let_go()
        del self.memberships[group.group_id]

    # -- JoinGroup -------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, caller: Caller, fresh_id: str, ticket: Ticket[JoinGroupResponse], now_ms: int
    ) -> Outcome[JoinGroupResponse]:
        outcome: Outcome[JoinGroupResponse] = Outcome()
        shortest, longest = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            refusal = join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
            outcome.answers.append((ticket, refusal))
            return outcome
        group = self.find(request.group_id)
        if not self._room.has(growth_by_join(group, request, caller)):
            outcome.answers.append((ticket, join_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)))
            return outcome
        if group is None:
            if request.member_id:
                # It was a member of a group that is gone.
                outcome.answers.append((ticket, join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)))
                return outcome
            group = Membership(request.group_id, held=self._held)
            if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
                # Kafka would leave an empty group behind.
                group.let_go()
                outcome.answers.append((ticket, join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)))
                return outcome
            # A new group begins with a record that says it exists, as Kafka's do.
            self.memberships[request.group_id] = group
            outcome.records = [empty_group(group, group.generation, now_ms)]
        self._joining.join(group, Join.of(request, caller, fresh_id, ticket, now_ms, outcome))
        return outcome

    # -- SyncGroup -------------------------------------------------------------------------------------------

    def sync(
        self, request: SyncGroupRequest, ticket: Ticket[SyncGroupResponse], now_ms: int
    ) -> Outcome[SyncGroupResponse]:
        """Hand the assignment in (the leader) or wait for it. In a stable group it is returned again."""
        outcome: Outcome[SyncGroupResponse] = Outcome()
        group = self.find(request.group_id)
        error = _validate_sync(group, request)
        if error is not ErrorCode.NONE:
            outcome.answers.append((ticket, sync_refused(error)))
            return outcome
        assert group is not None
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            self._rebalance.has_synced(group, member.member_id)
            outcome.answers.append((ticket, synced(group, member.assignment)))
            return outcome
        assert group.state is GroupState.COMPLETING_REBALANCE
        if group.leader == member.member_id and not self._has_room_for(group, request):
            # The leader joins again, and perhaps others have gone by then.
            outcome.answers.append((ticket, sync_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
            return outcome
        # An earlier request of the same member still waits: its connection is gone, or it would not ask again.
        answer_sync(member, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), outcome)
        member.syncing = ticket
        if group.leader == member.member_id:
            # The leader counts as synced once its record is in the log: see `Membership.settle`.
            assignments = {entry.member_id: entry.assignment for entry in request.assignments}
            self._rebalance.assign(group, assignments, now_ms, outcome)
        else:
            self._rebalance.has_synced(group, member.member_id)
        return outcome

    def _has_room_for(self, group: Membership, request: SyncGroupRequest) -> bool:
        """Looked at where room is scarce: one record is never more than a batch."""
        if not self._room.is_scarce:
            return True
        assignments = {entry.member_id: entry.assignment for entry in request.assignments}
        return self._room.has(growth_by_assignments(group, self._logged[group.group_id], assignments))

    # -- Heartbeat -------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: HeartbeatRequest, ticket: Ticket[HeartbeatResponse], now_ms: int
    ) -> Outcome[HeartbeatResponse]:
        """REBALANCE_IN_PROGRESS is how a member learns that it has to join again."""
        return Outcome(answers=[(ticket, heartbeat(self._beat(request, now_ms)))])

    def _beat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        group = self.find(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = validate_member(group, request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.beat(group, group.members[request.member_id], now_ms)
        rebalancing = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE

    # -- LeaveGroup ------------------------------------------------------------------------------------------

    def leave(
        self, request: LeaveGroupRequest, ticket: Ticket[LeaveGroupResponse], now_ms: int
    ) -> Outcome[LeaveGroupResponse]:
        """Members leave, several at once if an administrator says so; at most one rebalance follows.

        A pending id that is given back disturbs no member (Kafka would rebalance a stable group for it).
        """
        outcome: Outcome[LeaveGroupResponse] = Outcome()
        group = self.find(request.group_id)
        left = False
        members = []
        for identity in request.members:
            error = ErrorCode.UNKNOWN_MEMBER_ID
            if group is not None:
                before = len(group.members)
                error = self._leave_one(group, identity, outcome)
                left = left or len(group.members) < before
            members.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        if group is not None and left:
            self._rebalance.start_or_complete(group, now_ms, outcome)
        elif group is not None:
            self._rebalance.complete_if_joined(group, now_ms, outcome)
        outcome.answers.append((ticket, LeaveGroupResponse(members=members)))
        return outcome

    def _leave_one(self, group: Membership, identity: MemberIdentity, outcome: AnyOutcome) -> ErrorCode:
        member_id = identity.member_id
        if member_id in group.pending:
            group.remove(member_id)
            self._rebalance.forget(group, member_id)
            return ErrorCode.NONE
        if not member_id:
            # An administrator removes a static member by its instance id.
            member_id = group.static_ids.get(identity.group_instance_id or "", "")
            if not member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID
        error = validate_member(group, member_id, identity.group_instance_id)
        if error is ErrorCode.NONE:
            self._rebalance.drop(group, group.members[member_id], outcome)
        return error

    # -- deadlines -------------------------------------------------------------------------------------------

    def expire(self, key: DeadlineKey, now_ms: int, outcome: AnyOutcome) -> None:
        """Act on one deadline that has passed."""
        group = self.find(key.group_id)
        if group is None:
            return
        match key.kind:
            case DeadlineKind.MEMBER:
                self._rebalance.session_is_over(group, key.member_id, now_ms, outcome)
            case DeadlineKind.JOIN:
                self._rebalance.joins_are_due(group, now_ms, outcome)
            case DeadlineKind.SYNC:
                self._rebalance.syncs_are_due(group, now_ms, outcome)
            case DeadlineKind.ASSIGN:
                self._rebalance.go_on_assigning(group, now_ms, outcome)
            case DeadlineKind.RETENTION:
                raise AssertionError("not a deadline of a member")


def _validate_sync(group: Membership | None, request: SyncGroupRequest) -> ErrorCode:
    if group is None or group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = validate_member(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
