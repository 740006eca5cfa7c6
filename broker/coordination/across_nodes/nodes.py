"""The nodes of the cluster as this one knows them: who leads which partition, where each is reached, who controls.

A node over a data folder, or in memory, is alone: it leads everything, under the epoch of its start. Over a store that
several reach, the metadata log says it, as far as that is durable.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.config.listeners import Endpoint
from broker.coordination.cluster import Cluster
from coordinator.cluster.leaders import NOBODY, Leaders


@dataclass(frozen=True, slots=True)
class ReachedNode:
    """A node that serves, as clients of one listener reach it."""

    node_id: int
    endpoint: Endpoint
    rack: str | None
    epoch: int
    """That of its start."""
    serves: bool = True
    """Or it did until a moment ago."""


class Nodes(Protocol):
    """See the head of this file."""

    @property
    def node_id(self) -> int:
        """This one's."""

    @property
    def own_epoch(self) -> int:
        """That of this start."""

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Where clients of each listener reach this one."""

    @property
    def is_alone(self) -> bool:
        """Whether no other node can ever serve beside this one."""

    @property
    def all_serve_readers(self) -> bool:
        """Whether consumers may read a partition from any node (KIP-392)."""

    @property
    def controller_id(self) -> int:
        """Who takes changes of the metadata; -1 where nobody is known to."""

    @property
    def revision(self) -> int:
        """Grows when leaders change."""

    def leader(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """(node, leader epoch) of a partition; -1 for the node where nobody leads it."""

    def epoch(self, topic_id: bytes, index: int) -> int:
        """The leader epoch of a partition."""

    def leads(self, topic_id: bytes, index: int) -> bool:
        """Whether this node does."""

    def reached(self, listener: str) -> list[ReachedNode]:
        """Those that serve, by node id; this one always among them."""

    def listed(self, listener: str) -> list[ReachedNode]:
        """The same, and for a while those that served."""

    def reach(self, node_id: int, listener: str) -> Endpoint | None:
        """Where one that serves is reached."""


class OneNode:
    """The only one there is."""

    is_alone = True
    all_serve_readers = False
    revision = 0

    def __init__(self, node_id: int, epoch: int, endpoints: Mapping[str, Endpoint], rack: str | None) -> None:
        self.node_id = node_id
        self.controller_id = node_id
        self.own_epoch = epoch
        self.endpoints = endpoints
        self._rack = rack

    def leader(self, topic_id: bytes, index: int) -> tuple[int, int]:
        return self.node_id, self.own_epoch

    def epoch(self, topic_id: bytes, index: int) -> int:
        return self.own_epoch

    def leads(self, topic_id: bytes, index: int) -> bool:
        return True

    def reached(self, listener: str) -> list[ReachedNode]:
        return [ReachedNode(self.node_id, self.endpoints[listener], self._rack, self.own_epoch)]

    def listed(self, listener: str) -> list[ReachedNode]:
        return self.reached(listener)

    def reach(self, node_id: int, listener: str) -> Endpoint | None:
        return self.endpoints.get(listener) if node_id == self.node_id else None


LISTED_MS = 30_000
"""How long a node that has gone is listed: most have started again by then. Apache Kafka tells of one that was killed
until its session is over."""


class SharedNodes:
    """Those of a cluster over one store. `controller` says who controls, `caught_up` waits until this node knows all
    that is durable by now; `now_ms` is the monotonic clock."""

    is_alone = False

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        endpoints: Mapping[str, Endpoint],
        *,
        controller: Callable[[], int],
        caught_up: Callable[[], Awaitable[None]],
        now_ms: Callable[[], int],
        all_serve_readers: bool = False,
    ) -> None:
        self.node_id = node_id
        self.all_serve_readers = all_serve_readers
        self._now_ms = now_ms
        self._gone: dict[int, int] = {}
        """When it was that a node had gone: of those that have while this one served."""
        self._served: set[int] = set()
        self._cluster = cluster
        self.endpoints = endpoints
        self._controller = controller
        self._leaders: dict[bytes, Leaders] = {}
        """As far as they are durable: an epoch that is not may be given to somebody else again."""
        self.revision = 0
        """Counts what has changed of leaders."""
        self.on_moved: Callable[[dict[bytes, list[int]]], None] = lambda moved: None
        """Called with the partitions, by the ids of their topics, whose leaders have changed."""
        self.caught_up = caught_up
        cluster.on_durable(self._follow)
        self._follow()

    @property
    def controller_id(self) -> int:
        return self._controller()

    def _see_who_serves(self) -> None:
        brokers = self._cluster.image.brokers
        serve = {node_id for node_id, one in brokers.items() if not one.fenced}
        now_ms = self._now_ms()
        self._gone = {
            node_id: self._gone.get(node_id, now_ms)
            for node_id in (self._gone.keys() | self._served) & brokers.keys()
            if node_id not in serve and now_ms - self._gone.get(node_id, now_ms) < LISTED_MS
        }
        self._served = serve

    def _follow(self) -> None:
        self._see_who_serves()
        changes, durable = self._cluster.image.leader_changes, self._cluster.durable_offset
        assert changes is not None, "they are kept where several nodes lead"
        moved: dict[bytes, list[int]] = {}
        while changes and changes[0].offset < durable:
            change = changes.popleft()
            if change.index < 0:
                self._leaders.pop(change.topic_id, None)
                continue
            leaders = self._leaders.setdefault(change.topic_id, Leaders())
            if change.index == len(leaders):
                leaders.append(change.leader, change.epoch)
            else:
                leaders.put(change.index, change.leader, change.epoch)
            moved.setdefault(change.topic_id, []).append(change.index)
        if moved:
            self.revision += 1
            self.on_moved(moved)

    def leader(self, topic_id: bytes, index: int) -> tuple[int, int]:
        leaders = self._leaders.get(topic_id)
        if leaders is None or not 0 <= index < len(leaders):
            return NOBODY, NOBODY
        return leaders.leader(index), leaders.epoch(index)

    @property
    def own_epoch(self) -> int:
        return self._cluster.image.brokers[self.node_id].registration.broker_epoch

    def epoch(self, topic_id: bytes, index: int) -> int:
        return self.leader(topic_id, index)[1]

    def leads(self, topic_id: bytes, index: int) -> bool:
        return self.leader(topic_id, index)[0] == self.node_id

    def reached(self, listener: str) -> list[ReachedNode]:
        return [node for node in self.listed(listener) if node.serves]

    def listed(self, listener: str) -> list[ReachedNode]:
        self._see_who_serves()
        found: list[ReachedNode] = []
        for node_id in sorted({*self._served, *self._gone, self.node_id}):
            endpoint = self._endpoint(node_id, listener)
            if endpoint is not None:
                broker = self._cluster.image.brokers.get(node_id)
                if broker is None:
                    found.append(ReachedNode(node_id, endpoint, None, NOBODY))
                else:
                    known, serves = broker.registration, node_id == self.node_id or not broker.fenced
                    found.append(ReachedNode(node_id, endpoint, known.rack, known.broker_epoch, serves))
        return found

    def reach(self, node_id: int, listener: str) -> Endpoint | None:
        broker = self._cluster.image.brokers.get(node_id)
        if node_id != self.node_id and (broker is None or broker.fenced):
            return None
        return self._endpoint(node_id, listener)

    def _endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        if node_id == self.node_id:
            return self.endpoints.get(listener)
        broker = self._cluster.image.brokers.get(node_id)
        for one in () if broker is None else broker.registration.end_points:
            if one.name == listener:
                return Endpoint(listener, one.host, one.port)
        return None
