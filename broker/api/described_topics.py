"""What Metadata says of topics, made once for all responses.

All clients of a node hear the same of a topic. A thousand of them that ask for all topics in one moment, as after a
restart, would otherwise each have three megabytes of the same made for them where there are ten thousand partitions.
What is in a response is not changed any more. The partitions of all topics that have as many are one array, which is
written once for each version: of ten thousand partitions a response takes what copying them takes.
"""

from collections.abc import Set
from weakref import WeakKeyDictionary, WeakValueDictionary

from broker.coordination.across_nodes.nodes import Nodes
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from coordinator.cluster.leaders import NOBODY
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from protocol.schema import WrittenOnce

AT_ONCE = 50
"""Partitions that are made between two looks at the clock."""


class DescribedTopics:
    """Those of one node, in one start. Where it is alone it leads all partitions, in one epoch; else what is kept is
    that of one revision of the leaders, and of the nodes that are reached."""

    def __init__(self) -> None:
        self._partitions: list[MetadataResponsePartition] = []
        """By index: those of all topics are alike."""
        self._arrays: WeakValueDictionary[int, WrittenOnce[MetadataResponsePartition]] = WeakValueDictionary()
        """The first so many of them, as long as a topic has as many."""
        self._topics: dict[tuple[int, Set[int]], WeakKeyDictionary[Topic, MetadataResponseTopic]] = {}
        """By the operations that are allowed on a topic, as far as they were asked for, and who is reached."""
        self._revision = 0

    async def of(
        self, topic: Topic, *, nodes: Nodes, reached: Set[int], operations: int, time_slice: TimeSlice
    ) -> MetadataResponseTopic:
        """A topic with the partitions it has now. A leader that is not among the nodes that are `reached`, of which the
        same response tells, is none, as in Kafka: clients do not expect one that they cannot find."""
        if nodes.revision != self._revision:
            self._revision = nodes.revision
            self._topics.clear()
        key = (operations, reached)
        known = self._topics.get(key)
        if known is None:
            known = self._topics[key] = WeakKeyDictionary()
        found, count = known.get(topic), len(topic.partitions)
        if found is None or len(found.partitions) != count:
            if nodes.is_alone:
                await self._describe(self._partitions, topic, count, nodes, reached, time_slice)
                partitions = self._first(count)
            else:
                own: list[MetadataResponsePartition] = []
                await self._describe(own, topic, count, nodes, reached, time_slice)
                partitions = WrittenOnce(own)
            found = MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.internal,
                partitions=partitions,
                topic_authorized_operations=operations,
            )
            if nodes.revision == self._revision:
                self._topics.setdefault(key, known)[topic] = found
        return found

    async def _describe(
        self,
        described: list[MetadataResponsePartition],
        topic: Topic,
        count: int,
        nodes: Nodes,
        reached: Set[int],
        time_slice: TimeSlice,
    ) -> None:
        """Those that are missing up to `count`."""
        nobody: list[int] = []
        serve = sorted(reached)
        # Of all that one node leads: three lists each would be most of what is kept.
        lists: dict[int, tuple[list[int], list[int]]] = {NOBODY: (nobody, nobody)}
        while len(described) < count:
            begin = len(described)
            for index in range(begin, min(begin + AT_ONCE, count)):
                leader, epoch = nodes.leader(topic.topic_id, index)
                is_reached = leader in reached
                if leader not in lists:
                    lists[leader] = _replicas(leader, serve if nodes.all_serve_readers else [])
                replicas, in_sync = lists[leader]
                described.append(
                    MetadataResponsePartition(
                        error_code=ErrorCode.NONE if is_reached else ErrorCode.LEADER_NOT_AVAILABLE,
                        partition_index=index,
                        leader_id=leader if is_reached else NOBODY,
                        leader_epoch=epoch,
                        replica_nodes=replicas,
                        isr_nodes=in_sync,
                        offline_replicas=nobody if is_reached or leader == NOBODY else [leader],
                    )
                )
            await time_slice.give_way()

    def _first(self, count: int) -> WrittenOnce[MetadataResponsePartition]:
        found = self._arrays.get(count)
        if found is None:
            found = self._arrays[count] = WrittenOnce(self._partitions[:count])
        return found


def _replicas(leader: int, readable: list[int]) -> tuple[list[int], list[int]]:
    """All replicas of what a node leads, the leader first, and those in sync. Java's consumers read from nobody else,
    whoever the leader sends them to (KIP-392)."""
    replicas = [leader, *(one for one in readable if one != leader)]
    return replicas, [one for one in replicas if one in readable] or [leader]
