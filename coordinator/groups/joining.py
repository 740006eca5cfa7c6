"""JoinGroup: who may become a member, under which id, and whether that means a rebalance.

A dynamic member without an id is given one and joins again with it (KIP-394), so that clients that give up
while they wait leave no ghosts. A static member is known by its instance id (KIP-345): if it restarts while the group
is stable, it takes its own place back without a rebalance.
"""

from dataclasses import dataclass

from coordinator.groups.answers import join_refused, joined, joined_unchanged, sync_refused, validate_member
from coordinator.groups.assigning import assigned
from coordinator.groups.membership import GroupState, Member, Membership
from coordinator.groups.rebalance import Rebalance, answer_join, answer_sync
from coordinator.groups.settings import GroupSettings
from coordinator.machine import Outcome, Ticket
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupRequest, JoinGroupResponse
from protocol.primitives import MAX_STRING_BYTES

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
CLIENT_ID_CHARACTERS = 255
"""How much of the client id goes into a member's. Kafka takes all of it, up to 32 KB for each id that is handed out."""
PENDING_MOST = 10_000
"""How many ids of a group may be handed out and not taken yet; beyond that the oldest is forgotten."""
NEW_MEMBER_TIMEOUT_MS = 300_000
"""A new member cannot heartbeat while it waits; one whose client has gone is given up after this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, and its version."""

    client_id: str
    client_host: str
    api_version: int


@dataclass(slots=True)
class Join:
    """One JoinGroup on its way through this file."""

    request: JoinGroupRequest
    caller: Caller
    fresh_id: str
    ticket: Ticket[JoinGroupResponse]
    now_ms: int
    outcome: Outcome[JoinGroupResponse]
    protocols: dict[str, bytes]

    @classmethod
    def of(
        cls,
        request: JoinGroupRequest,
        caller: Caller,
        fresh_id: str,
        ticket: Ticket[JoinGroupResponse],
        now_ms: int,
        outcome: Outcome[JoinGroupResponse],
    ) -> "Join":
        protocols: dict[str, bytes] = {}
        for protocol in request.protocols:
            protocols.setdefault(protocol.name, protocol.metadata)
        return cls(request, caller, fresh_id, ticket, now_ms, outcome, protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has none of its own; a negative one means nothing."""
        timeout_ms = self.request.rebalance_timeout_ms
        return max(self.request.session_timeout_ms if timeout_ms == -1 else timeout_ms, 0)

    def refuse(self, error: ErrorCode, member_id: str = "") -> None:
        self.outcome.answers.append((self.ticket, join_refused(error, member_id)))


class Joining:
    """Decides what a JoinGroup means for a group that exists."""

    def __init__(self, settings: GroupSettings, rebalance: Rebalance) -> None:
        self._settings = settings
        self._rebalance = rebalance

    def join(self, group: Membership, join: Join) -> None:
        """Take a member in, take it back, or tell it why not. May release many answers, or none yet."""
        request = join.request
        if not self._has_room(group, request.member_id):
            self._rebalance.forget(group, request.member_id)
            self._leave_full_group(group, join)
            join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.supports(request.protocol_type, join.protocols):
            join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id:
            self._join_with_id(group, join)
        elif request.group_instance_id is not None:
            self._join_static(group, join, request.group_instance_id)
        else:
            self._join_dynamic(group, join)

    # -- room ------------------------------------------------------------------------------------------------

    def _has_room(self, group: Membership, member_id: str) -> bool:
        """`group.max.size` bounds the members that join. Present members may stay, in the order they rejoin."""
        largest = self._settings.max_size
        member = group.members.get(member_id)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                # Counting joining members takes time with each of many members: only where they might be too many.
                joins_already = member is not None and member.joining is not None
                return joins_already or len(group.members) < largest or group.joining_count < largest
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < largest
            case _:
                return True

    def _leave_full_group(self, group: Membership, join: Join) -> None:
        """A member that finds the group full is removed: the others need not wait for it."""
        group.remove(join.request.member_id)
        self._rebalance.complete_if_joined(group, join.now_ms, join.outcome)

    # -- without an id ---------------------------------------------------------------------------------------

    def _join_dynamic(self, group: Membership, join: Join) -> None:
        member_id = f"{join.caller.client_id[:CLIENT_ID_CHARACTERS]}-{join.fresh_id}"
        if join.caller.api_version >= MEMBER_ID_REQUIRED_SINCE:
            if len(group.pending) >= PENDING_MOST:
                self._forget_pending(group, next(iter(group.pending)))
            group.hand_out(member_id)
            self._rebalance.expect(group, member_id, join.now_ms + join.request.session_timeout_ms)
            join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, join, member_id)

    def _forget_pending(self, group: Membership, member_id: str) -> None:
        """If its owner comes after all, UNKNOWN_MEMBER_ID makes it ask for another."""
        group.remove(member_id)
        self._rebalance.forget(group, member_id)

    def _join_static(self, group: Membership, join: Join, instance_id: str) -> None:
        member_id = f"{instance_id}-{join.fresh_id}"
        if len(member_id.encode()) > MAX_STRING_BYTES:
            # Kafka's answer. It takes the member in all the same and can then neither describe nor write the group.
            join.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif instance_id in group.static_ids:
            self._replace_static(group, join, instance_id, member_id)
        else:
            self._add(group, join, member_id)

    def _add(self, group: Membership, join: Join, member_id: str) -> None:
        request = join.request
        member = Member(
            member_id,
            request.group_instance_id,
            join.caller.client_id,
            join.caller.client_host,
            join.rebalance_timeout_ms,
            request.session_timeout_ms,
            join.protocols,
            is_new=True,
            joining=join.ticket,
        )
        if group.is_initial:
            group.member_came = True
        group.add(member, request.protocol_type)
        self._rebalance.expect(group, member_id, join.now_ms + NEW_MEMBER_TIMEOUT_MS)
        self._rebalance.start_or_complete(group, join.now_ms, join.outcome)

    # -- static members --------------------------------------------------------------------------------------

    def _replace_static(self, group: Membership, join: Join, instance_id: str, new_id: str) -> None:
        old_id = group.static_ids[instance_id]
        old_leader = group.leader
        self._rebalance.forget(group, old_id)
        member = group.replace_static(instance_id, new_id)
        # A request that still waits under the old id is of a second process with the same instance id.
        answer_join(member, join_refused(ErrorCode.FENCED_INSTANCE_ID, old_id), join.outcome)
        answer_sync(member, sync_refused(ErrorCode.FENCED_INSTANCE_ID), join.outcome)
        self._update(group, member, join)
        self._rebalance.beat(group, member, join.now_ms)
        if group.state is GroupState.STABLE and group.protocol == group.select_protocol():
            self._take_place_back(group, member, join, old_leader)
        else:
            # While the leader computes it knows the old id only, so the assignment would miss the new one.
            self._rebalance.start_or_complete(group, join.now_ms, join.outcome)

    def _take_place_back(self, group: Membership, member: Member, join: Join, old_leader: str | None) -> None:
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        made = assigned(group, assignments)
        self._rebalance.wrote(made.value, made.group)
        join.outcome.records = [made.record]
        self._rebalance.settled(group)
        can_skip = join.caller.api_version >= SKIP_ASSIGNMENT_SINCE
        answer = joined_unchanged(group, member.member_id, old_leader=old_leader, can_skip=can_skip)
        answer_join(member, answer, join.outcome)

    # -- with an id ------------------------------------------------------------------------------------------

    def _join_with_id(self, group: Membership, join: Join) -> None:
        request = join.request
        member_id = request.member_id
        if member_id in group.pending:
            if request.group_instance_id is not None:
                # Only dynamic members are ever pending. Kafka stumbles here and says the same.
                join.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
            else:
                self._add(group, join, member_id)
            return
        error = validate_member(group, member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            join.refuse(error, member_id)
            return
        member = group.members[member_id]
        if self._knows_already(group, member, join):
            join.outcome.answers.append((join.ticket, joined(group, member_id)))
        else:
            self._update(group, member, join)
            self._rebalance.start_or_complete(group, join.now_ms, join.outcome)

    def _knows_already(self, group: Membership, member: Member, join: Join) -> bool:
        """Whether the current generation will do. A leader that joins a stable group wants a new one, for it may
        have seen what no metadata shows (a topic that grew)."""
        unchanged = list(member.protocols.items()) == list(join.protocols.items())
        match group.state:
            case GroupState.COMPLETING_REBALANCE:
                return unchanged
            case GroupState.STABLE:
                return unchanged and group.leader != member.member_id
            case _:
                return False

    def _update(self, group: Membership, member: Member, join: Join) -> None:
        group.update(member, join.protocols)
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.request.session_timeout_ms
        # An earlier request of the same member still waits: its connection is gone, or it would not ask again.
        answer_join(member, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), join.outcome)
        member.joining = join.ticket
