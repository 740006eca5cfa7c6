"""The assignor `uniform`, where all members want the same topics: equal shares, and as little moved as that allows.

Every member gets the same number of partitions, some of them one more: those first that have more already.
"""

from coordinator.groups.assignors.subject import Assignment, Subject
from coordinator.groups.assignors.uneven import assign_unevenly


def assign_uniformly(subject: Subject) -> dict[str, Assignment]:
    """What each member is to have."""
    return assign_evenly(subject) if subject.is_homogeneous else assign_unevenly(subject)


def assign_evenly(subject: Subject) -> dict[str, Assignment]:
    """The case of equal subscriptions."""
    if not subject.members:
        return {}
    topics = next(iter(subject.members.values())).topics
    counts = {topic_id: subject.partition_counts[topic_id] for topic_id in topics}
    kept = {
        member_id: [
            (topic_id, partition)
            for topic_id in topics
            for partition in sorted(member.current.get(topic_id, ()))
            if partition < counts[topic_id]
        ]
        for member_id, member in subject.members.items()
    }
    limits = _limits(kept, sum(counts.values()))
    free = _free(counts, kept, limits)
    assigned: dict[str, Assignment] = {}
    for member_id, partitions in kept.items():
        share: dict[bytes, set[int]] = {}
        limit = limits[member_id]
        for topic_id, partition in partitions[:limit]:
            share.setdefault(topic_id, set()).add(partition)
        for _ in range(limit - len(partitions)):
            topic_id, partition = free.pop()
            share.setdefault(topic_id, set()).add(partition)
        assigned[member_id] = {topic_id: frozenset(of) for topic_id, of in share.items()}
    assert not free, "every partition has an owner"
    return assigned


def _limits(kept: dict[str, list[tuple[bytes, int]]], total: int) -> dict[str, int]:
    """How many partitions each member is to have."""
    quota, extra = divmod(total, len(kept))
    limits = dict.fromkeys(kept, quota)
    rich = [member_id for member_id, partitions in kept.items() if len(partitions) > quota]
    others = (member_id for member_id in kept if len(kept[member_id]) <= quota)
    for member_id in [*rich, *others][:extra]:
        limits[member_id] += 1
    return limits


def _free(
    counts: dict[bytes, int], kept: dict[str, list[tuple[bytes, int]]], limits: dict[str, int]
) -> list[tuple[bytes, int]]:
    """The partitions that nobody keeps; the first are at the end of the list."""
    taken = {one for member_id, partitions in kept.items() for one in partitions[: limits[member_id]]}
    every = [(topic_id, partition) for topic_id, count in counts.items() for partition in range(count)]
    return [one for one in reversed(every) if one not in taken]
