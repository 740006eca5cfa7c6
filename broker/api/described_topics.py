"""What Metadata says of topics, made once for all responses.

All clients of a node hear the same of a topic. A thousand of them that ask for all topics in one moment, as after a
restart, would otherwise each have three megabytes of the same made for them where there are ten thousand partitions.
What is in a response is not changed any more. The partitions of all topics that have as many are one array, which is
written once for each version: of ten thousand partitions a response takes what copying them takes.
"""

from weakref import WeakKeyDictionary, WeakValueDictionary

from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from protocol.schema import WrittenOnce

AT_ONCE = 50
"""Partitions that are made between two looks at the clock."""


class DescribedTopics:
    """Those of one node, in one start: it leads all partitions, in one epoch."""

    def __init__(self) -> None:
        self._partitions: list[MetadataResponsePartition] = []
        """By index: those of all topics are alike."""
        self._arrays: WeakValueDictionary[int, WrittenOnce[MetadataResponsePartition]] = WeakValueDictionary()
        """The first so many of them, as long as a topic has as many."""
        self._topics: dict[int, WeakKeyDictionary[Topic, MetadataResponseTopic]] = {}
        """By the operations that are allowed on a topic, as far as they were asked for."""

    async def of(
        self, topic: Topic, *, node_id: int, epoch: int, operations: int, time_slice: TimeSlice
    ) -> MetadataResponseTopic:
        """A topic with the partitions it has now."""
        known = self._topics.get(operations)
        if known is None:
            known = self._topics[operations] = WeakKeyDictionary()
        found, count = known.get(topic), len(topic.partitions)
        if found is None or len(found.partitions) != count:
            nodes, offline = [node_id], list[int]()  # of all: three lists each would be most of what is kept
            while len(self._partitions) < count:
                begin = len(self._partitions)
                self._partitions += [
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=node_id,
                        leader_epoch=epoch,
                        replica_nodes=nodes,
                        isr_nodes=nodes,
                        offline_replicas=offline,
                    )
                    for index in range(begin, min(begin + AT_ONCE, count))
                ]
                await time_slice.give_way()
            known[topic] = found = MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.internal,
                partitions=self._first(count),
                topic_authorized_operations=operations,
            )
        return found

    def _first(self, count: int) -> WrittenOnce[MetadataResponsePartition]:
        found = self._arrays.get(count)
        if found is None:
            found = self._arrays[count] = WrittenOnce(self._partitions[:count])
        return found
