"""The assignor `simple` of share groups (KIP-932): several members may have a partition.

All members have something to do where there are partitions at all: each partition has as many members as are needed for
that, and members have about as many partitions as one another. What a member was meant to have it keeps, if it can.
Where members want different topics, each topic is looked at by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import cycle

from coordinator.groups.assignors.subject import Assignment, Subscriber

TopicPartition = tuple[bytes, int]


def assign_shares(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, Collection[int]]
) -> dict[str, Assignment]:
    """What each member is to have of the `partitions` that may be assigned."""
    wanted = {subscriber.topics for subscriber in members.values()}
    topics = sorted({topic for of in wanted for topic in of if topic in partitions})
    rounds = [topics] if len(wanted) <= 1 else [[topic] for topic in topics]
    made: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    for of_round in rounds:
        there = [(topic, partition) for topic in of_round for partition in sorted(partitions[topic])]
        subscribers = [one for one, subscriber in members.items() if of_round and of_round[0] in subscriber.topics]
        for member_id, share in zip(subscribers, _shared(subscribers, members, there), strict=True):
            for topic, partition in share:
                made[member_id].setdefault(topic, set()).add(partition)
    return {
        member_id: {topic: frozenset(of) for topic, of in sorted(topics_of.items())}
        for member_id, topics_of in made.items()
    }


def _shared(
    subscribers: Sequence[str], members: Mapping[str, Subscriber], there: Sequence[TopicPartition]
) -> list[set[TopicPartition]]:
    """The partitions of each subscriber, who all want all of them."""
    if not subscribers or not there:
        return [set() for _ in subscribers]
    sharing = -(-len(subscribers) // len(there))
    total = sharing * len(there)
    places = dict.fromkeys(there, sharing)
    shares: list[set[TopicPartition]] = []
    wanting: list[tuple[int, int]] = []
    for position, member_id in enumerate(subscribers):
        count = -(-total * (position + 1) // len(subscribers)) + (-total * position // len(subscribers))
        kept: set[TopicPartition] = set()
        for topic, indexes in members[member_id].current.items():
            for index in sorted(indexes):
                if len(kept) < count and places.get((topic, index)):
                    places[topic, index] -= 1
                    kept.add((topic, index))
        shares.append(kept)
        if len(kept) < count:
            wanting.append((len(kept) - count, position))
    heapify(wanting)
    for one, left in places.items():
        _hand_out(one, left, shares, wanting)
    for share, spare in zip((share for share in shares if not share), cycle(there), strict=False):
        share.add(spare)
    return shares


def _hand_out(
    one: TopicPartition, left: int, shares: Sequence[set[TopicPartition]], wanting: list[tuple[int, int]]
) -> None:
    """The places of a partition go to those who want most, and have it not. If all that want more have it, it has
    fewer members than it might."""
    seen = []
    while left and wanting:
        wants, position = heappop(wanting)
        if one not in shares[position]:
            shares[position].add(one)
            left -= 1
            wants += 1
        if wants:
            seen.append((wants, position))
    for wants_and_position in seen:
        heappush(wanting, wants_and_position)
