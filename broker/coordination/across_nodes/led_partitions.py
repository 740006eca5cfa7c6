"""Which partitions open here, where several nodes lead: those that the metadata log gives to this node.

Rule 1. What is given to this node is claimed in the store under the epoch that the log says, and opened in the
        background. What is given to another is closed at once: who waits for something of it is told
        NOT_LEADER_OR_FOLLOWER, and what was not committed is dropped, for nobody was told anything of it.
Rule 2. Who finds out from the store that a log is another's, by a claim or a commit, gives it up, and takes it again
        only under a later epoch.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any

from broker.coordination.across_nodes.nodes import Nodes, SharedNodes
from broker.coordination.opening_logs import LogsToOpen
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.partitions.topic import Topic
from broker.process.logging import EventLog
from protocol.errors import ErrorCode

FIRST_RELEASE_S, LONGEST_RELEASE_S = 0.002, 1.0
"""How long a log that is being committed is left alone before it is looked at again."""

Own = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]

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
        self._to_come: deque[tuple[bytes, int]] = deque()
        """What opens in the background, in order: what requests wait for is opened between them."""
        self._openers = 0
        self.confirm: Callable[[Partition], Awaitable[bool]] | None = None
        """Where others may lead a partition by now: whether nobody does. It is asked before an answer goes out with
        which nothing is committed."""
        self.on_given_up: list[Callable[[Topic, int], None]] = []
        """Each is called for each partition that is not open here any more, was damaged, or is not to be opened any
        more: whoever waits for it looks again."""
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
                self._to_come.append((topic.topic_id, index))
            elif here is None:
                self._tell(topic, index)
        for _ in range(min(len(self._to_come), self._to_open.at_a_time - self._openers)):
            self._openers += 1
            self._own(self._open())

    async def _open(self) -> None:
        try:
            await self._to_open.wait_until_these_are_open(self._next_ones())
        finally:
            self._openers -= 1

    def _next_ones(self) -> Iterator[tuple[Topic | None, int]]:
        while self._to_come:
            topic_id, index = self._to_come.popleft()
            yield self._find(topic_id), index

    def forget(self, topic: Topic) -> None:
        """It is deleted."""
        for place in [place for place in self._lost if place[0] == topic.topic_id]:
            del self._lost[place]

    def _refused(self, topic: Topic, index: int, epoch: int) -> None:
        """The store has it for another node's, under a later epoch than this. It is claimed again if it was given to
        this node under a later one meanwhile."""
        if self._nodes.leader(topic.topic_id, index) != (self._nodes.node_id, epoch):
            return
        _log.info("a log is another node's already", topic=topic.name, partition=index, epoch=epoch)
        self._lost[topic.topic_id, index] = epoch
        topic.partitions.leave(index)
        self._to_open.add(topic)
        self._tell(topic, index)

    def lost(self, partition: Partition) -> None:
        """A commit of it was refused."""
        topic = self._find(partition.topic_id)
        if topic is not None and topic.partitions.here(partition.index) is partition:
            _log.info("a partition is another node's by now", topic=topic.name, partition=partition.index)
            self._lost[topic.topic_id, partition.index] = partition.leader_epoch
            self._give_up(topic, partition.index)

    def _tell(self, topic: Topic, index: int) -> None:
        for follower in self.on_given_up:
            follower(topic, index)

    def _give_up(self, topic: Topic, index: int) -> None:
        partition = topic.partitions.leave(index)
        self._to_open.add(topic)
        if partition is None:
            return
        partition.gone = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.discarded = True
        self._tell(topic, index)
        if partition.offline is None:
            partition.discard()
            self._own(self._release(partition))

    async def _release(self, partition: Partition) -> None:
        pause_s = FIRST_RELEASE_S
        while not self._store.release(partition.log):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_RELEASE_S)
