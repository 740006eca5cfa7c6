"""Which node is to lead which partition. Pure: all of it follows from what is there, ties from the ids of nodes.

Rule 1. New partitions are spread topic by topic: no node gets a second one of a topic before every other has one. Of
        nodes that have as many, the one that leads fewer partitions in all comes first, and of those that lead as many
        one of the rack that has fewest of this topic: who loses a rack loses as little of each topic as can be. Racks
        come last, for Rule 2 would move again what they made uneven.
Rule 2. What has lost its leader gets one, and nothing else moves unless the totals of two nodes differ by more than
        one. Then as few move as can be, and none twice: who is to have how many is known before the first one moves.
        Each goes to who has fewest of its topic, and of those to the rack that has. Of moves that are as good for the
        totals, those come first that mend how a topic is spread over racks, and those that spoil it last.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import repeat

from coordinator.cluster.image import ClusterImage, TopicImage
from coordinator.cluster.leaders import NOBODY, Leaders

_NEVER = 1 << 62
_ANY = -_NEVER
_NOTHING: Mapping[int, int] = {}
Rack = str | None
_NOWHERE: Mapping[int, Rack] = {}
Move = tuple[TopicImage, int, int]
"""A partition of a topic, and the node that is to lead it."""


class Spread:
    """Of the new partitions of one batch, over `living` nodes, whose leaders have `epoch`. `led` says how many
    partitions each node leads already, `racks` where nodes stand; neither is changed."""

    def __init__(
        self, living: Sequence[int], led: Mapping[int, int], epoch: int, racks: Mapping[int, Rack] = _NOWHERE
    ) -> None:
        self.epoch = epoch
        self._totals = {node: led.get(node, 0) for node in living}
        self._racks = {node: racks.get(node) for node in living}

    def choose(self, so_far: Leaders) -> Iterator[int]:
        """The leaders of the next partitions of a topic, without end. `so_far` are those of its partitions before."""
        totals = self._totals
        if len(totals) == 1:
            yield from repeat(*totals)
        have = _Have(so_far.count_by_node(), self._racks)
        by_rack: dict[Rack, list[tuple[int, int, int]]] = {}
        for node, total in totals.items():
            by_rack.setdefault(self._racks[node], []).append((have.node[node], total, node))
        orders, counts = list(by_rack.values()), [have.rack[rack] for rack in by_rack]
        for order in orders:
            heapify(order)
        while True:
            firsts = [(*order[0][:2], counts[rack], order[0][2], rack) for rack, order in enumerate(orders)]
            count, _, _, node, rack = min(firsts)
            totals[node] += 1
            counts[rack] += 1
            yield node
            heapreplace(orders[rack], (count + 1, totals[node], node))

    def assigned(self, replicas: Iterable[Sequence[int]]) -> Iterator[int]:
        """The leaders of partitions for which a request names nodes: of each the first that lives."""
        for nodes in replicas:
            node = next(node for node in nodes if node in self._totals)
            self._totals[node] += 1
            yield node


def moves(image: ClusterImage, living: Sequence[int]) -> Iterator[Move]:
    """What is to be led by another node, or anew by the same one: its epoch is of an earlier start. For as long as the
    image stays as it is; whoever takes only some of them asks again afterwards."""
    return _Moves(image, living).all() if living else iter(())


class _Have:
    """How many partitions of a topic each node leads, and each rack. Nodes that do not live stand in none."""

    def __init__(self, by_node: Counter[int], racks: Mapping[int, Rack]) -> None:
        self.node = by_node
        self.rack = Counter[Rack]()
        self._racks = racks
        for node, count in self.node.items():
            if node in racks:
                self.rack[racks[node]] += count

    def add(self, node: int, count: int = 1) -> None:
        self.node[node] += count
        self.rack[self._racks[node]] += count

    def gain(self, giver: int, receiver: int) -> int:
        """How many more the rack of the one leads: from 2 on a move from it to the other mends, below 1 it spoils."""
        of_giver, of_receiver = self._racks[giver], self._racks[receiver]
        return 1 if of_giver == of_receiver else self.rack[of_giver] - self.rack[of_receiver]

    def order(self, node: int) -> tuple[int, int]:
        """Who comes first gets the next one."""
        return self.node[node], self.rack[self._racks[node]]


class _Moves:
    """Until all of them are taken, `surplus` is how many each node is to give away, `lack` how many it is to get."""

    def __init__(self, image: ClusterImage, living: Sequence[int]) -> None:
        self._topics = list(image.topics.values())
        self._since = {
            node: image.brokers[node].registration.broker_epoch if node in image.brokers else -1 for node in living
        }
        """The epochs of their starts: what they lead under an earlier one was given to a process that is gone."""
        racks = image.racks
        self._racks = {node: racks.get(node) for node in living}
        self._gains = (2, 1, _ANY) if len(set(self._racks.values())) > 1 else (_ANY,)
        if len(self._gains) > 1:
            self._topics.sort(key=lambda topic: len(topic.leaders))  # What has few partitions has the least choice.
        totals = {node: image.led[node] for node in sorted(living)}
        share, over = divmod(sum(image.led.values()), len(totals))
        self._surplus: dict[int, int] = {}
        self._lack: dict[int, int] = {}
        for place, node in enumerate(sorted(totals, key=lambda node: -totals[node])):
            target = share + (place < over)
            if totals[node] > target:
                self._surplus[node] = totals[node] - target
            elif totals[node] < target:
                self._lack[node] = target - totals[node]
        self._moved: dict[bytes, dict[int, int]] = {}
        """By topic and partition, what was said so far."""

    def all(self) -> Iterator[Move]:
        since = self._since
        for topic in self._topics:
            lost = [index for index, (node, epoch) in enumerate(topic.leaders) if epoch < since.get(node, _NEVER)]
            if lost:
                yield from self._led_anew(topic, lost)
        # Topics that are spread unevenly first; in all others a move leaves the spread as even as it was.
        for difference in (2, 1):
            left = [topic for topic in self._topics if len(topic.leaders) >= difference] if self._surplus else []
            for gain in self._gains:
                looked_at, left = left, []
                for topic in looked_at if self._surplus else ():
                    if len(topic.leaders) < gain or (yield from self._too_many(topic, difference, gain)):
                        left.append(topic)
        assert not self._surplus, "a node that leads more in all leads more of some topic"

    def _led_anew(self, topic: TopicImage, lost: Sequence[int]) -> Iterator[Move]:
        nodes = list(topic.leaders.nodes())
        for index in lost:
            if nodes[index] not in self._since:
                nodes[index] = NOBODY
        have = _Have(Counter(nodes), self._racks)
        for index in lost:
            node = nodes[index]
            if node == NOBODY or node in self._surplus:
                if node != NOBODY:
                    have.add(node, -1)
                    self._take(self._surplus, node)
                nodes[index] = self._receiver(have)
                have.add(nodes[index])
                self._take(self._lack, nodes[index])
            yield topic, index, nodes[index]
        self._moved[topic.topic_id] = {index: nodes[index] for index in lost}

    def _too_many(self, topic: TopicImage, difference: int, gain: int) -> Generator[Move, None, bool]:
        """Partitions of a topic of which one node leads so many more than another, as long as there are such two, and
        the one's rack at least `gain` more than the other's. Returns whether there are still, for less gain."""
        nodes = list(topic.leaders.nodes())
        for index, node in self._moved.get(topic.topic_id, _NOTHING).items():
            nodes[index] = node
        led = Counter(nodes)
        if (
            not self._surplus
            or max(led[one] for one in self._surplus) - min(led[one] for one in self._lack) < difference
        ):
            return False
        have, looked_at = _Have(led, self._racks), dict.fromkeys(self._surplus, 0)
        while (found := self._from_to(have, difference, gain)) is not None:
            giver, receiver = found
            index = nodes.index(giver, looked_at[giver])
            looked_at[giver] = index + 1
            nodes[index] = receiver
            self._moved.setdefault(topic.topic_id, {})[index] = receiver
            have.add(giver, -1)
            have.add(receiver)
            self._take(self._surplus, giver)
            self._take(self._lack, receiver)
            yield topic, index, receiver
        return self._from_to(have, difference, _ANY) is not None

    def _from_to(self, have: _Have, difference: int, gain: int) -> tuple[int, int] | None:
        """Who is to give one to whom."""
        for giver in sorted(self._surplus, key=lambda node: (-have.node[node], -self._surplus[node], node)):
            most = have.node[giver] - difference
            if most < 0:
                return None
            fitting = [node for node in self._lack if have.node[node] <= most and have.gain(giver, node) >= gain]
            if fitting:
                return giver, self._first(have, fitting)
        return None

    def _receiver(self, have: _Have) -> int:
        """Of the nodes that lack some, the one with the fewest of this topic."""
        return self._first(have, self._lack)

    def _first(self, have: _Have, nodes: Iterable[int]) -> int:
        return min(nodes, key=lambda node: (have.order(node), -self._lack[node], node))

    @staticmethod
    def _take(counts: dict[int, int], node: int) -> None:
        counts[node] -= 1
        if not counts[node]:
            del counts[node]
