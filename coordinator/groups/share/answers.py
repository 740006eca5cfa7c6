"""What members and administrators of share groups are answered, and what is to be done for a group meanwhile."""

from dataclasses import dataclass

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.share.group import ShareGroup, ShareGroupState
from coordinator.groups.share.member import ShareMember
from protocol.errors import ErrorCode
from protocol.messages.groups import ListedGroup
from protocol.messages.share.groups import (
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedShareTopicPartitions,
    ShareAssignment,
    ShareGroupHeartbeatResponse,
    ShareTopicPartitions,
)

GROUP_TYPE = "share"
ASSIGNOR = "simple"


@dataclass(frozen=True, slots=True)
class Errand:
    """Partitions that the share coordinator is to be asked about for a group: to keep them, or to forget them."""

    group_id: str
    state_epoch: int
    partitions: Assignment


@dataclass(frozen=True, slots=True)
class ShareAnswer:
    """What a member is told, and what `broker` is to do."""

    response: ShareGroupHeartbeatResponse
    errand: Errand | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Whether an administrator may change a group, and what the share coordinator is to be asked then."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    errand: Errand | None = None


def heartbeat_refused(error: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error, error_message=message)


def refused(refusal: Refusal) -> ShareAnswer:
    return ShareAnswer(heartbeat_refused(refusal.error, refusal.message))


def told(member: ShareMember, interval_ms: int, *, with_assignment: bool) -> ShareGroupHeartbeatResponse:
    """What a member has from now on; without a word of its partitions where they are as it knows them."""
    partitions = [
        ShareTopicPartitions(topic_id=topic_id, partitions=sorted(of)) for topic_id, of in member.assigned.items()
    ]
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=ShareAssignment(topic_partitions=partitions) if with_assignment else None,
    )


def listed_share_group(of_group: tuple[str, ShareGroupState]) -> ListedGroup:
    """One group in a list."""
    group_id, state = of_group
    return ListedGroup(group_id=group_id, protocol_type=GROUP_TYPE, group_state=state.value, group_type=GROUP_TYPE)


def wanted_share_states(states: list[str], types: list[str]) -> frozenset[ShareGroupState]:
    """The states of share groups that pass both filters of ListGroups; an empty filter lets everything pass."""
    named = {word.lower() for word in states}
    of_type = not types or GROUP_TYPE in {word.lower() for word in types}
    return frozenset(state for state in ShareGroupState if of_type and (not named or state.value.lower() in named))


def described(group: ShareGroup, topics: GroupTopics) -> DescribedShareGroup:
    """A group with its members. Partitions of topics that are gone are not shown."""
    return DescribedShareGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: GroupTopics) -> DescribedShareMember:
    assignment = [
        DescribedShareTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in member.assigned.items()
        if (topic := topics.by_id(topic_id)) is not None
    ]
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=DescribedShareAssignment(topic_partitions=assignment),
    )
