"""The target of a group: who is to have what, computed anew when the group has changed."""

from collections import Counter
from collections.abc import Callable, Mapping

from coordinator.groups.assignors.range import assign_ranges
from coordinator.groups.assignors.subject import NOTHING, Assignment, Subject, Subscriber
from coordinator.groups.assignors.uniform import assign_uniformly
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_entries import assignment_epoch, target_assignment
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.machine import Record

ASSIGNORS: Mapping[str, Callable[[Subject], dict[str, Assignment]]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str | None:
    """The assignor that most members ask for; `uniform` where as many ask for another (in Kafka it stands first in a
    hash table)."""
    votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
    return max(votes, key=lambda name: (votes[name], name == "uniform"), default=None)


def is_homogeneous(members: Mapping[str, ConsumerMember]) -> bool:
    """Whether all members want the same."""
    return len({(member.topics, member.regex or "") for member in members.values()}) <= 1


def topics_wanted(group: ConsumerGroup, members: Mapping[str, ConsumerMember]) -> set[str]:
    """The names of the topics that any of these members wants."""
    wanted: set[str] = set()
    for names, regex in {(member.topics, member.regex) for member in members.values()}:
        wanted |= names
        if regex and (resolved := group.resolved.get(regex)) is not None:
            wanted |= resolved.topics
    return wanted


def with_member(group: ConsumerGroup, member: ConsumerMember) -> dict[str, ConsumerMember]:
    """The members of a group, one of them as it is about to be; it takes the place of another with its instance id."""
    members = dict(group.members)
    replaced = group.static_ids.get(member.instance_id) if member.instance_id is not None else None
    if replaced is not None and replaced != member.member_id:
        members.pop(replaced, None)
    members[member.member_id] = member
    return members


def new_targets(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], topics: GroupTopics, default_assignor: str
) -> dict[str, Assignment]:
    """What each of these members is to have."""
    ids_of: dict[tuple[frozenset[str], str | None], tuple[bytes, ...]] = {}
    counts: dict[bytes, int] = {}
    subscribers = {}
    for member_id, member in members.items():
        wanted = (member.topics, member.regex)
        if wanted not in ids_of:
            known = [topic for name in sorted(group.topics_of(member)) if (topic := topics.by_name(name)) is not None]
            counts.update((topic.topic_id, topic.partition_count) for topic in known)
            ids_of[wanted] = tuple(topic.topic_id for topic in known)
        current = group.target_of(member_id, member.instance_id)
        subscribers[member_id] = Subscriber(ids_of[wanted], current, member.instance_id)
    assign = ASSIGNORS[preferred_assignor(members) or default_assignor]
    return assign(Subject(subscribers, counts, is_homogeneous(members)))


def records_of_targets(
    group: ConsumerGroup, targets: Mapping[str, Assignment], epoch: int, now_ms: int
) -> list[Record]:
    """What has to be written for members to have these targets."""
    records = [
        target_assignment(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if group.targets.get(member_id) != target
    ]
    return [*records, assignment_epoch(group.group_id, epoch, now_ms)]


def target_of(targets: Mapping[str, Assignment], member_id: str) -> Assignment:
    """One of them."""
    return targets.get(member_id, NOTHING)
