"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: what members of a classic group say to its coordinator.

A JoinGroup or SyncGroup may wait for other members as long as a rebalance timeout; a client that goes away meanwhile
leaves its member behind, until its session ends. An empty group id is refused with INVALID_GROUP_ID.

Groups of the consumer protocol (KIP-848) answer here to their members of the classic one. What we do not do: share
groups and streams groups; their APIs are not listed.
"""

from typing import Protocol
from uuid import UUID

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_groups import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from broker.api.services import WithEnvironment, WithGroups
from broker.coordination.coordinators import CoordinatorError
from coordinator.groups.answers import heartbeat as heartbeat_answer
from coordinator.groups.answers import join_refused, sync_refused
from coordinator.groups.joining import Caller
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

NO_PROTOCOL_SINCE = 7
"""From here on JoinGroup can say that no protocol was chosen; before, it is the empty name."""
LEAVES_TOGETHER_SINCE = 3
NAMES_PROTOCOL_SINCE = 5
PROTOCOLS_MOST = 1_000
"""How many a member may name: all are looked at in one step. Clients name a handful, Kafka takes any number."""
LEAVING_AT_ONCE = 1_000
"""How many members of one request leave in one step; the rebalance that the first of them cause goes on."""


class GroupServices(WithEnvironment, WithGroups, Protocol):
    """What these handlers use of the node."""


@handles(JoinGroupRequest, JoinGroupResponse, versions=range(0, 10), guard=JOIN_GROUP)
async def join_group(services: GroupServices, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    """Become a member, or one of the next generation. Answered when all members have joined or their time is over.

    v1 a rebalance timeout of its own (before, the session timeout serves); v4 MEMBER_ID_REQUIRED first (KIP-394); v5
    static members (KIP-345); v7 protocol type; v8 a reason for the logs; v9 a returning static leader may skip the
    assignment (KIP-814).
    """
    answer = await _join(services, context, request)
    if answer.protocol_name is None and context.api_version < NO_PROTOCOL_SINCE:
        answer.protocol_name = ""
    return answer


async def _join(services: GroupServices, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    if not request.group_id:
        return join_refused(ErrorCode.INVALID_GROUP_ID, request.member_id)
    if len(request.protocols) > PROTOCOLS_MOST:
        return join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    caller = Caller(context.client_id or "", f"/{context.connection.peer_host}", context.api_version)
    fresh_id = str(UUID(bytes=services.environment.random_bytes(16), version=4))
    try:
        return await services.groups.ask(
            request.group_id,
            lambda machine, ticket, now_ms: machine.join(request, caller, fresh_id, ticket, now_ms),
        )
    except CoordinatorError as refused:
        return join_refused(refused.error, request.member_id)


@handles(SyncGroupRequest, SyncGroupResponse, versions=range(0, 6), guard=SYNC_GROUP)
async def sync_group(services: GroupServices, context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    """Bring the assignment (the leader) and get one's own part. Answered when the leader has spoken and the
    assignment is durable; in a stable group at once.

    v3 static members; v5 protocol type and name must be given and right (KIP-559).
    """
    if context.api_version >= NAMES_PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return sync_refused(ErrorCode.INVALID_GROUP_ID)
    try:
        return await services.groups.ask(
            request.group_id, lambda machine, ticket, now_ms: machine.sync(request, ticket, now_ms)
        )
    except CoordinatorError as refused:
        return sync_refused(refused.error)


@handles(HeartbeatRequest, HeartbeatResponse, versions=range(0, 5), guard=HEARTBEAT)
async def heartbeat(services: GroupServices, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Stay a member. REBALANCE_IN_PROGRESS makes it join again. v3 static members.

    While the coordinator loads it answers NONE, as Kafka does: the session has not ended.
    """
    if not request.group_id:
        return heartbeat_answer(ErrorCode.INVALID_GROUP_ID)
    try:
        return await services.groups.ask(
            request.group_id, lambda machine, ticket, now_ms: machine.heartbeat(request, ticket, now_ms)
        )
    except CoordinatorError as refused:
        loading = refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return heartbeat_answer(ErrorCode.NONE if loading else refused.error)


@handles(LeaveGroupRequest, LeaveGroupResponse, versions=range(0, 6), guard=LEAVE_GROUP)
async def leave_group(
    services: GroupServices, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Members go. v0-2 one member, whose error is that of the answer; v3 several, also static ones by their instance id
    (KIP-345); v5 a reason for the logs.
    """
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    alone = context.api_version < LEAVES_TOGETHER_SINCE
    members = [MemberIdentity(member_id=request.member_id)] if alone else request.members
    time_slice = services.environment.time_slice()
    left: list[MemberResponse] = []
    for begin in range(0, max(len(members), 1), LEAVING_AT_ONCE):
        some = LeaveGroupRequest(group_id=request.group_id, members=members[begin : begin + LEAVING_AT_ONCE])
        try:
            left += await _leave(services, some)
        except CoordinatorError as refused:
            return LeaveGroupResponse(error_code=refused.error)
        await time_slice.give_way()
    return LeaveGroupResponse(error_code=left[0].error_code if alone else ErrorCode.NONE, members=left)


async def _leave(services: GroupServices, request: LeaveGroupRequest) -> list[MemberResponse]:
    answer = await services.groups.ask(
        request.group_id, lambda machine, ticket, now_ms: machine.leave(request, ticket, now_ms)
    )
    return answer.members
