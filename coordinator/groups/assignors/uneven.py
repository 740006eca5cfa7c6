"""The assignor `uniform`, where members want different topics: loads as equal as the subscriptions allow.

First everybody keeps what it had and still wants. Then partitions without an owner go to whoever has least of those
that want the topic; topics with the fewest takers for their partitions come first, for others can make up for them. At
last partitions move from who has most to who has least, as long as that makes the two more equal.
"""

import heapq

from coordinator.groups.assignors.subject import Assignment, Subject

ROUNDS_MOST = 16
"""Each round about halves what is uneven. Where all that want a topic want the same topics, one is enough."""


def assign_unevenly(subject: Subject) -> dict[str, Assignment]:
    """What each member is to have."""
    loads = _Loads(subject)
    loads.hand_out()
    for _ in range(ROUNDS_MOST):
        if not loads.even_out():
            break
    return loads.assignments()


class _Loads:
    """Who owns what while it is decided. Members are numbered in the order in which they stand in the group."""

    def __init__(self, subject: Subject) -> None:
        self._members = list(subject.members)
        self._wanting: dict[bytes, list[int]] = {}
        for number, member in enumerate(subject.members.values()):
            for topic_id in member.topics:
                self._wanting.setdefault(topic_id, []).append(number)
        counts = subject.partition_counts
        self._topics = sorted(
            self._wanting,
            key=lambda topic: (-counts[topic] / len(self._wanting[topic]), len(self._wanting[topic]), topic),
        )
        self._owners: dict[bytes, list[int | None]] = {topic: [None] * counts[topic] for topic in self._topics}
        self._sizes = [0] * len(self._members)
        for number, member in enumerate(subject.members.values()):
            for topic_id in member.topics:
                owners = self._owners[topic_id]
                for partition in member.current.get(topic_id, ()):
                    if partition < len(owners) and owners[partition] is None:
                        owners[partition] = number
                        self._sizes[number] += 1

    def hand_out(self) -> None:
        """Give every partition an owner."""
        for topic_id in self._topics:
            least = [(self._sizes[number], number) for number in self._wanting[topic_id]]
            heapq.heapify(least)
            owners = self._owners[topic_id]
            for partition, owner in enumerate(owners):
                if owner is None:
                    size, number = least[0]
                    owners[partition] = number
                    self._sizes[number] += 1
                    heapq.heapreplace(least, (size + 1, number))

    def even_out(self) -> bool:
        """One round; whether anything moved."""
        moved = False
        for topic_id in reversed(self._topics):
            moved = self._even_out(topic_id) or moved
        return moved

    def _even_out(self, topic_id: bytes) -> bool:
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            assert owner is not None
            owned.setdefault(owner, []).append(partition)
        most = [(-self._sizes[number], number) for number in owned]
        least = [(self._sizes[number], number) for number in self._wanting[topic_id]]
        heapq.heapify(most)
        heapq.heapify(least)
        moved = False
        while most:
            giver, taker = most[0][1], least[0][1]
            if -most[0][0] != self._sizes[giver]:
                heapq.heappop(most)
                if owned[giver]:
                    heapq.heappush(most, (-self._sizes[giver], giver))
            elif least[0][0] != self._sizes[taker]:
                heapq.heapreplace(least, (self._sizes[taker], taker))
            elif self._sizes[giver] - self._sizes[taker] <= 1:
                break
            else:
                # Whoever takes has one more than the least then, if at all: it has nothing to give.
                self._owners[topic_id][owned[giver].pop()] = taker
                self._sizes[giver] -= 1
                self._sizes[taker] += 1
                moved = True
        return moved

    def assignments(self) -> dict[str, Assignment]:
        """The end of it."""
        shares: list[dict[bytes, set[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None
                shares[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(of) for topic_id, of in share.items()}
            for member_id, share in zip(self._members, shares, strict=True)
        }
