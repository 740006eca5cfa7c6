"""Which partitions open here, where several nodes lead: those that the metadata log gives to this node.

Rule 1. What is given to this node is claimed in the store under the epoch that the log says, and opened in the
        background. What is given to another is closed at once: who waits for something of it is told
        NOT_LEADER_OR_FOLLOWER, and what was not committed is dropped, for nobody was told anything of it.
Rule 2. Who finds out from the store that a log is another's, by a claim or a commit, gives it up, and takes it again
        only under a later epoch.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from broker.coordination.across_nodes.nodes import Nodes, SharedNodes
from broker.coordination.opening_logs import LogsToOpen
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.partitions.topic import Topic
from broker.process.logging import EventLog
from protocol.errors import ErrorCode

RELEASE_RETRY_S = 0.002

Own = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

_log = EventLog("topics")


class LedPartitions:
    """Those of one node. `find` gives a topic that stands by its id."""

    def __init__(
        self,
        nodes: Nodes,
        to_open: LogsToOpen,
        store: PartitionStore,
        find: Callable[[bytes], Topic | None],
        own: Own,
    ) -> None:
        self._nodes = nodes
        self._to_open = to_open
        self._store = store
        self._find = find
        self._own = own
        self._lost: dict[tuple[bytes, int], int] = {}
        """The epoch under which one was another node's in the store."""
        self._opening: set[bytes] = set()
        self.on_given_up: list[Callable[[Topic, int], None]] = []
        """Each is called for each partition that is not open here any more."""
        to_open.on_lost = self._refused
        if isinstance(nodes, SharedNodes):
            nodes.on_moved = self._moved

    def _moved(self, moved: dict[bytes, list[int]]) -> None:
        for topic_id, indexes in moved.items():
            topic = self._find(topic_id)
            if topic is not None:
                self.assign(topic, [index for index in indexes if index < len(topic.partitions)])
                self._to_open.add(topic)

    def assign(self, topic: Topic, indexes: Iterable[int]) -> None:
        """Take and give up what the log says of these partitions now."""
        nodes, partitions = self._nodes, topic.partitions
        if nodes.is_alone:
            return
        for index in indexes:
            leader, epoch = nodes.leader(topic.topic_id, index)
            is_mine = leader == nodes.node_id and self._lost.get((topic.topic_id, index), -1) < epoch
            here = partitions.here(index)
            if is_mine and here is not None and here.leader_epoch == epoch:
                continue
            self._give_up(topic, index)
            if is_mine:
                self._lost.pop((topic.topic_id, index), None)
                partitions.come(index)
        if partitions.first_closed() is not None and topic.topic_id not in self._opening:
            self._opening.add(topic.topic_id)
            self._own(self._open(topic))

    async def _open(self, topic: Topic) -> None:
        try:
            await self._to_open.wait_until_open([topic])
        finally:
            self._opening.discard(topic.topic_id)

    def _refused(self, topic: Topic, index: int) -> None:
        """The store has it for another node's."""
        epoch = self._nodes.leader(topic.topic_id, index)[1]
        _log.info("a log is another node's already", topic=topic.name, partition=index, epoch=epoch)
        self._lost[topic.topic_id, index] = epoch
        topic.partitions.leave(index)
        self._to_open.add(topic)

    def lost(self, partition: Partition) -> None:
        """A commit of it was refused."""
        topic = self._find(partition.topic_id)
        if topic is not None and topic.partitions.here(partition.index) is partition:
            _log.info("a partition is another node's by now", topic=topic.name, partition=partition.index)
            self._lost[topic.topic_id, partition.index] = partition.leader_epoch
            self._give_up(topic, partition.index)

    def _give_up(self, topic: Topic, index: int) -> None:
        partition = topic.partitions.leave(index)
        self._to_open.add(topic)
        if partition is None or partition.offline is not None:
            return
        partition.gone = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.discarded = True
        for follower in self.on_given_up:
            follower(topic, index)
        partition.discard()
        self._own(self._release(partition))

    async def _release(self, partition: Partition) -> None:
        while not self._store.release(partition.log):
            await asyncio.sleep(RELEASE_RETRY_S)
