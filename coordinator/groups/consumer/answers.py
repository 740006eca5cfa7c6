"""What members and administrators of consumer groups are answered."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from coordinator.groups.assignors.subject import NOTHING, Assignment
from coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState, without_epochs
from coordinator.groups.consumer.member import ConsumerMember, Partitions
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.groups.consumer.targets import preferred_assignor
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.membership import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.seen.listing import Shown
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedMember,
    DescribedTopicPartitions,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from protocol.messages.groups import ListedGroup

ShownConsumerGroup = Shown[DescribedConsumerGroup, DescribedMember]
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
GROUP_TYPE = "consumer"


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What a member is told, and what `broker` is to look up."""

    response: ConsumerGroupHeartbeatResponse
    resolution: Resolution | None = None


def heartbeat_refused(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def refused(refusal: Refusal) -> HeartbeatAnswer:
    return HeartbeatAnswer(heartbeat_refused(refusal.error, refusal.message))


def left(member_id: str, epoch: int) -> HeartbeatAnswer:
    """A member has gone, for good or for a while."""
    return HeartbeatAnswer(ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch))


def told(member: ConsumerMember, interval_ms: int, *, with_assignment: bool) -> ConsumerGroupHeartbeatResponse:
    """What a member has from now on; without a word of its partitions where they are as it knows them."""
    partitions = [
        HeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(of)) for topic_id, of in member.assigned.items()
    ]
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=HeartbeatAssignment(topic_partitions=partitions) if with_assignment else None,
    )


# -- administration --------------------------------------------------------------------------------------------------


def wanted_states(states: Sequence[str], types: Sequence[str]) -> frozenset[ConsumerGroupState]:
    """The states of consumer groups that pass both filters of ListGroups; an empty filter lets everything pass."""
    named = {word.lower() for word in states}
    of_type = not types or GROUP_TYPE in {word.lower() for word in types}
    return frozenset(state for state in ConsumerGroupState if of_type and (not named or state.value.lower() in named))


def listed_consumers(of_group: tuple[str, ConsumerGroupState]) -> ListedGroup:
    """One group in a list."""
    group_id, state = of_group
    return ListedGroup(
        group_id=group_id, protocol_type=CONSUMER_PROTOCOL_TYPE, group_state=state.value, group_type=GROUP_TYPE
    )


def described(group: ConsumerGroup, topics: GroupTopics, default_assignor: str) -> ShownConsumerGroup:
    """A group with its members. Partitions of topics that are gone are not shown."""
    whole = DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members) or default_assignor,
        members=[],
    )
    return Shown(
        whole,
        [
            partial(_member, member, group.targets.get(member.member_id, NOTHING), topics)
            for member in group.members.values()
        ],
    )


def _member(member: ConsumerMember, target: Assignment, topics: GroupTopics) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(_together(member.assigned, member.revoking), topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _together(*parts: Partitions) -> dict[bytes, frozenset[int]]:
    together: dict[bytes, frozenset[int]] = {}
    for part in map(without_epochs, parts):
        for topic_id, indexes in part.items():
            together[topic_id] = together.get(topic_id, frozenset()) | indexes
    return together


def _assignment(assignment: Mapping[bytes, Iterable[int]], topics: GroupTopics) -> DescribedAssignment:
    return DescribedAssignment(topic_partitions=list(_topic_partitions(assignment, topics)))


def _topic_partitions(
    assignment: Mapping[bytes, Iterable[int]], topics: GroupTopics
) -> Iterator[DescribedTopicPartitions]:
    for topic_id, indexes in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            yield DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
