"""What administrators see of groups: ListGroups and DescribeGroups, and what all descriptions share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import GroupState, Member, Membership
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribedGroupMember, ListedGroup

GROUP_TYPE = "classic"
G = TypeVar("G")
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Shown(Generic[G, M]):
    """A group as it was at one moment. There may be thousands of members: each is described when it is its turn."""

    group: G
    """Without its members."""
    members: Sequence[Callable[[], M]] = ()


def group_filter(states: Sequence[str], types: Sequence[str]) -> Callable[[GroupState], bool]:
    """Which groups pass both filters; an empty filter lets everything pass, case does not matter."""
    named = {word.lower() for word in states}
    of_type = not types or GROUP_TYPE in {word.lower() for word in types}
    wanted = {state for state in GroupState if of_type and (not named or state.value.lower() in named)}
    return wanted.__contains__


def listed(of_group: tuple[LoggedGroup, GroupState]) -> ListedGroup:
    """One group in a list."""
    group, state = of_group
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=state.value,
        group_type=GROUP_TYPE,
    )


def described(group_id: str, group: Membership | None, *, is_led_here: bool = False) -> DescribedGroup:
    """One group. Metadata is shown of stable groups only; an unknown group is Dead, and so is one that
    the broker leads, which another API describes.

    The code GROUP_ID_NOT_FOUND for the latter is of version 6; the handler takes it back for older ones.
    """
    if group is None:
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is not a classic group."
            if is_led_here
            else f"Group {group_id} not found.",
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=[],
        )
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(group, member, stable) for member in group.members.values()],
    )


def _member(group: Membership, member: Member, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol) if stable else b"",
        member_assignment=member.assignment,
    )
