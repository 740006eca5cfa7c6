"""The assignor `range`: of each topic, every subscriber gets one run of partitions.

Members come in the order of their instance ids, then of their member ids, so that topics with equally many partitions
and the same subscribers are split alike (co-partitioning). It does not look at who had what.
"""

from coordinator.groups.assignors.subject import Assignment, Subject, Subscriber


def assign_ranges(subject: Subject) -> dict[str, Assignment]:
    """What each member is to have."""
    ordered = sorted(subject.members, key=lambda member_id: _rank(member_id, subject.members[member_id]))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in ordered:
        for topic_id in subject.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in subject.members}
    for topic_id, members in subscribers.items():
        quota, extra = divmod(subject.partition_counts[topic_id], len(members))
        start = 0
        for position, member_id in enumerate(members):
            end = start + quota + (position < extra)
            if start < end:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _rank(member_id: str, member: Subscriber) -> tuple[bool, bytes]:
    """Texts compare as in Java: by their UTF-16 code units."""
    text = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, text.encode("utf-16-be", "surrogatepass")
