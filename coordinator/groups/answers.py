"""The answers of the classic group protocol, in one place: what a member is answered when."""

from coordinator.groups.membership import Membership
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)


def join_refused(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=[])


def joined(group: Membership, member_id: str) -> JoinGroupResponse:
    """The current generation. Its leader gets all members, the others only themselves."""
    leads = group.leader == member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
        members=_everybody(group) if leads else [],
    )


def joined_unchanged(group: Membership, member_id: str, *, old_leader: str | None, can_skip: bool) -> JoinGroupResponse:
    """A static member is back and the generation goes on as it is.

    A leader that understands it (v9) skips the assignment. An older one would compute it again, so its response
    names the leader by its old id and it takes itself for a follower (KIP-814).
    """
    if can_skip:
        answer = joined(group, member_id)
        answer.skip_assignment = group.leader == member_id
        return answer
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=old_leader or "",
        member_id=member_id,
        members=[],
    )


def _everybody(group: Membership) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")


def synced(group: Membership, assignment: bytes) -> SyncGroupResponse:
    """A member without an assignment gets empty bytes, never null."""
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def heartbeat(error: ErrorCode = ErrorCode.NONE) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def validate_member(group: Membership, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether this is a member, and not one whose static identity another has taken over (KIP-345)."""
    if instance_id is not None:
        known = group.static_ids.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
