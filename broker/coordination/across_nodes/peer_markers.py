"""Markers for partitions that other nodes lead: WriteTxnMarkers to each leader, one request at a time.

What comes meanwhile goes together with the next one. Whatever time cures is answered with a code that the coordinator
tries again; the metadata may name another leader by then. A topic is named with its id: the leader may have followed
further than this node, or not as far, and have another one of that name. It says that it does not know the topic, and
is asked until both know the same.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from broker.coordination.across_nodes.denials import Denials
from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.marker_writer import Done, LocalMarkerWriter
from broker.coordination.topics import TopicDirectory
from broker.peers.port import Peers, PeerUnreachable
from coordinator.cluster.leaders import NOBODY
from coordinator.machine import Marker
from coordinator.transactions.states import NO_TOPIC_ID
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

WRITE_TXN_MARKERS = 2
"""The version that nodes speak among each other."""
AT_ONCE = 500
"""Markers of one request."""

Waiting = tuple[str, int, Marker, bytes, Done]
"""Topic, partition, marker, the topic's id, which is `NO_TOPIC_ID` where the transaction's record has none, and whom to
tell."""


class SharedMarkerWriter:
    """`coordinator.ports.MarkerWriter` of a node beside others. `local` writes to what this node leads; `own` runs work
    in a task of the node's."""

    def __init__(
        self,
        local: LocalMarkerWriter,
        topics: TopicDirectory,
        nodes: Nodes,
        peers: Peers,
        own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        self._local = local
        self._topics = topics
        self._nodes = nodes
        self._peers = peers
        self._own = own
        self._denials = Denials("WriteTxnMarkers")
        self._waiting: dict[int, list[Waiting]] = {}
        """By the node that is to write them; there is an entry while somebody tells it."""

    def write(self, topic: str, partition: int, topic_id: bytes | None, marker: Marker, done: Done) -> None:
        """See `MarkerWriter`."""
        found = self._topics.by_name(topic) if topic_id is None else self._topics.by_id(topic_id)
        if found is None:
            done(ErrorCode.UNKNOWN_TOPIC_ID)
            return
        leader, _ = self._nodes.leader(found.topic_id, partition)
        if leader == self._nodes.node_id:
            self._local.write(topic, partition, topic_id, marker, done)
        elif leader == NOBODY:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            one = (topic, partition, marker, topic_id or NO_TOPIC_ID, done)
            if leader in self._waiting:
                self._waiting[leader].append(one)
            else:
                self._waiting[leader] = [one]
                self._own(self._tell(leader))

    async def _tell(self, leader: int) -> None:
        try:
            while waiting := self._waiting[leader]:
                together, self._waiting[leader] = _together(waiting)
                await self._ask(leader, together)
        except Exception:
            _tell_all(self._waiting.pop(leader), {})
            raise
        del self._waiting[leader]

    async def _ask(self, leader: int, together: Sequence[Waiting]) -> None:
        answered: dict[tuple[int, str, int], ErrorCode] = {}
        try:
            response = await self._peers.ask(leader, _request(together), WRITE_TXN_MARKERS, WriteTxnMarkersResponse)
            for one in response.markers:
                for topic in one.topics:
                    for result in topic.partitions:
                        place = (one.producer_id, topic.name, result.partition_index)
                        answered[place] = ErrorCode(result.error_code)
            self._denials.answered(leader, *answered.values())
        except PeerUnreachable:
            pass
        except Exception:
            _tell_all(together, {})
            raise
        _tell_all(together, answered)


def _tell_all(waiting: Sequence[Waiting], answered: Mapping[tuple[int, str, int], ErrorCode]) -> None:
    for name, partition, marker, _, done in waiting:
        done(answered.get((marker.producer_id, name, partition), ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _together(waiting: Sequence[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
    """What one request can hold, and the rest: its answer names markers by their producers, and topics by name."""
    by_producer: dict[int, Marker] = {}
    by_name: dict[str, bytes] = {}
    together: list[Waiting] = []
    rest: list[Waiting] = []
    for one in waiting:
        name, _, marker, topic_id, _ = one
        if (
            len(together) < AT_ONCE
            and by_producer.setdefault(marker.producer_id, marker) == marker
            and by_name.setdefault(name, topic_id) == topic_id
        ):
            together.append(one)
        else:
            rest.append(one)
    return together, rest


def _request(together: Sequence[Waiting]) -> WriteTxnMarkersRequest:
    topics: dict[Marker, dict[tuple[str, bytes], list[int]]] = {}
    for name, partition, marker, topic_id, _ in together:
        topics.setdefault(marker, {}).setdefault((name, topic_id), []).append(partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes, topic_id=topic_id)
                    for (name, topic_id), indexes in by_topic.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, by_topic in topics.items()
        ]
    )
