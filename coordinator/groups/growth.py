"""By how much a request would make its group grow, in the estimates of `held`.

A member that joins again with what it said before, a leader that assigns as before and a commit of the same partitions
do not grow: existing members go on when there is no room left for others.
"""

from collections.abc import Mapping

from coordinator.groups.commits import Commit
from coordinator.groups.held import (
    LOGGED_GROUP_BYTES,
    LOGGED_MEMBER_BYTES,
    MEMBER_BYTES,
    MEMBERSHIP_BYTES,
    OFFSET_BYTES,
    protocols_bytes,
    text_bytes,
)
from coordinator.groups.joining import Caller
from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import Membership
from coordinator.groups.offsets import OffsetStore
from protocol.messages.groups import JoinGroupRequest


def growth_by_join(group: Membership | None, request: JoinGroupRequest, caller: Caller) -> int:
    """Counts the whole member, even where it is only given an id: it is to come back."""
    texts = text_bytes(request.member_id, request.group_instance_id, caller.client_id, caller.client_host)
    protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
    wanted = MEMBER_BYTES + texts + protocols_bytes(protocols)
    if group is None:
        return wanted + MEMBERSHIP_BYTES + LOGGED_GROUP_BYTES + 2 * text_bytes(request.group_id)
    member_id = request.member_id or group.static_ids.get(request.group_instance_id or "", "")
    known = group.members.get(member_id)
    return wanted if known is None else wanted - known.counted_bytes + len(known.assignment)


def growth_by_assignments(group: Membership, logged: LoggedGroup, assignments: Mapping[str, bytes]) -> int:
    """They are in memory once, for the member and for what the log says of it."""
    growth = -sum(known.held_bytes for known in logged.members.values())
    for member in group.members.values():
        texts = text_bytes(member.member_id, member.instance_id, member.client_id, member.client_host)
        assigned = 2 * len(assignments.get(member.member_id, b"")) - len(member.assignment)
        growth += LOGGED_MEMBER_BYTES + texts + len(member.metadata(group.protocol)) + assigned
    return growth


def growth_by_commit(commit: Commit, store: OffsetStore, *, is_new: bool) -> int:
    """Of the group, too, where it is `is_new`. An offset that is staged is counted beside the one that is committed."""
    growth = LOGGED_GROUP_BYTES + 2 * text_bytes(commit.group_id) if is_new else 0
    for wanted in commit.offsets:
        growth += OFFSET_BYTES + text_bytes(wanted.metadata)
        if commit.stamp is None:
            known = store.get(commit.group_id, wanted.topic, wanted.partition)
        else:
            staged = store.staged.get(commit.stamp.producer_id, {}).get(commit.group_id, {})
            known = staged.get((wanted.topic, wanted.partition))
        growth -= 0 if known is None else known.held_bytes
    return growth
