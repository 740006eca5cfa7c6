"""Asking other nodes where the partitions end that they lead: ListOffsets to each leader."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from broker.coordination.across_nodes.denials import Denials, denied_parts
from broker.coordination.across_nodes.nodes import Nodes
from broker.partitions.topic import Topic
from broker.peers.port import Peers, PeerUnreachable
from coordinator.cluster.leaders import NOBODY
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic

LIST_OFFSETS = 11
"""The version that nodes speak among each other."""
AT_ONCE = 1000
"""Partitions of one request, and of one turn."""
LATEST, CONSUMER, READ_UNCOMMITTED, TIMEOUT_MS = -1, -1, 0, 30_000

Ends = dict[tuple[str, int], int]
"""Topic and partition → its high watermark."""
Wanted = tuple[Topic, int]


class PeerEnds:
    """See the head of this file. `own` runs work in a task of the node's."""

    def __init__(
        self, nodes: Nodes, peers: Peers, own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
    ) -> None:
        self._nodes = nodes
        self._peers = peers
        self._own = own
        self._denials = Denials("ListOffsets")
        self._asked: set[int] = set()
        """Nodes that are asked for many, and have not told all of them."""

    async def of(self, topic: Topic, index: int) -> int | None:
        """None where that cannot be asked now."""
        leader, _ = self._nodes.leader(topic.topic_id, index)
        if leader in (NOBODY, self._nodes.node_id):
            return None
        return (await self._told(leader, [(topic, index)])).get((topic.name, index))

    async def of_many(self, wanted: Iterable[Wanted], patience_s: float) -> Ends:
        """What is told within so many seconds. Who has not told what was asked last time is not asked again."""
        by_leader: dict[int, list[Wanted]] = {}
        for number, (topic, index) in enumerate(wanted, 1):
            leader, _ = self._nodes.leader(topic.topic_id, index)
            if leader not in (NOBODY, self._nodes.node_id) and leader not in self._asked:
                by_leader.setdefault(leader, []).append((topic, index))
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        ends: Ends = {}
        asking = [self._own(self._ask(leader, of_it, ends)) for leader, of_it in by_leader.items()]
        if asking:
            await asyncio.wait(asking, timeout=patience_s)
        return dict(ends)

    async def _ask(self, leader: int, wanted: Sequence[Wanted], ends: Ends) -> None:
        self._asked.add(leader)
        try:
            for first in range(0, len(wanted), AT_ONCE):
                ends.update(await self._told(leader, wanted[first : first + AT_ONCE]))
        finally:
            self._asked.remove(leader)

    async def _told(self, leader: int, wanted: Sequence[Wanted]) -> Ends:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in wanted:
            asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
            by_topic.setdefault(topic.name, []).append(asked)
        topics = [ListOffsetsTopic(name=name, partitions=of_it) for name, of_it in by_topic.items()]
        request = ListOffsetsRequest(
            replica_id=CONSUMER, isolation_level=READ_UNCOMMITTED, topics=topics, timeout_ms=TIMEOUT_MS
        )
        try:
            answer = await self._peers.ask(leader, request, LIST_OFFSETS, ListOffsetsResponse)
        except PeerUnreachable:
            return {}
        self._denials.answered(leader, *(part.error_code for part in denied_parts(answer)))
        return dict(_ends(answer))


def _ends(answer: ListOffsetsResponse) -> Iterator[tuple[tuple[str, int], int]]:
    for topic in answer.topics:
        for partition in topic.partitions:
            if not partition.error_code:
                yield (topic.name, partition.partition_index), partition.offset
