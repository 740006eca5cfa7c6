"""What a node beside others has that one which is alone does without: a life in a shared store, the metadata as another
may write it, the way to the others, and coordinators that come and go with what this node leads.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.coordination.across_nodes.followed_partitions import FollowedPartitions
from broker.coordination.across_nodes.forwarding import Controller
from broker.coordination.across_nodes.nodes import Nodes, SharedNodes
from broker.coordination.across_nodes.peer_ends import PeerEnds
from broker.coordination.across_nodes.peer_gate import PeerGate
from broker.coordination.across_nodes.peer_markers import SharedMarkerWriter
from broker.coordination.across_nodes.peer_share_state import PeerShareState
from broker.coordination.cluster import Cluster
from broker.coordination.marker_writer import LocalMarkerWriter
from broker.coordination.producer_ids import IncarnationIds
from broker.coordination.topics import TopicDirectory
from broker.membership.life import SharedLife
from broker.partitions.followed_partition import FollowedPartition
from broker.partitions.partition import Partition
from broker.partitions.topic import Topic
from broker.peers.connections import PeerConnections
from broker.peers.listener import between_nodes
from broker.peers.port import Peers, Place
from broker.peers.way import Way
from broker.process.environment import Environment
from broker.shared.bringing import Own
from coordinator.cluster.keys.broker_keys import RACK_AWARE
from coordinator.ports import MarkerWriter
from storage.shared.store import SharedStore

MakePeers = Callable[[Nodes], Peers]


class BesideOthers:
    """That of one node. `make_peers` gives another way to the others than connections, for tests. Raises `ConfigError`,
    before this node takes anything from the others."""

    def __init__(
        self,
        store: SharedStore,
        config: BrokerConfig,
        environment: Environment,
        *,
        own: Own,
        fail: Callable[[BaseException], None],
        make_peers: MakePeers | None,
    ) -> None:
        self.life = SharedLife(store, config, environment, own=own, fail=fail)
        self._config = config
        self._environment = environment
        if make_peers is None:
            Way(config, environment)  # What is wrong with it is said here; connections make their own.
        self._make_peers = self._connections if make_peers is None else make_peers
        self._own = own
        self._peers: Peers | None = None
        self._nodes: SharedNodes | None = None
        self._gate: PeerGate | None = None
        self._ends: PeerEnds | None = None
        self.followed: FollowedPartitions | None = None

    async def join(
        self,
        *,
        on_written: Callable[[Partition], None],
        make_partition: Callable[..., Partition],
        on_lead: Callable[[Cluster], Awaitable[None]],
    ) -> Cluster:
        """The metadata, followed or led, once it knows of this life. Raises `StorageFailed`."""
        cluster = Cluster(None, self._environment, on_written=on_written, make_partition=make_partition)
        cluster.keep_leader_changes()
        await self.life.wait_until_registered(cluster, on_lead=lambda: on_lead(cluster))
        return cluster

    def nodes(self, cluster: Cluster, endpoints: Mapping[str, Endpoint]) -> SharedNodes:
        """The others as this one knows them, which can be asked from now on."""
        membership = self.life.membership
        nodes = SharedNodes(
            cluster,
            self._config.node_id,
            endpoints,
            controller=lambda: membership.controller_id,
            caught_up=membership.caught_up,
            now_ms=self._environment.monotonic_ms,
            all_serve_readers=self._config.get("replica.selector.class") == RACK_AWARE,
        )
        self._peers, self._nodes = self._make_peers(nodes), nodes
        self._gate = PeerGate(nodes, self._peers, self._own)
        self._ends = PeerEnds(nodes, self._peers, self._own)
        # A node that stands still keeps its connections: who waits for it is told when it is fenced.
        cluster.on_durable(self._peers.addresses_changed)
        self._peers.addresses_changed()
        return nodes

    @property
    def peers(self) -> Peers:
        assert self._peers is not None, "nobody is known yet"
        return self._peers

    @property
    def controller(self) -> Controller:
        """Who is asked for changes of the metadata."""
        assert self._nodes is not None, "nobody is known yet"
        silent_ms = partial(self._config.get_int, "broker.session.timeout.ms")
        return Controller(self._nodes, self.peers, self._environment, silent_ms=silent_ms)

    @property
    def gate(self) -> PeerGate:
        """The way to coordinators in other nodes."""
        assert self._gate is not None, "nobody is known yet"
        return self._gate

    @property
    def ends(self) -> PeerEnds:
        """Where partitions end that other nodes lead."""
        assert self._ends is not None, "nobody is known yet"
        return self._ends

    def markers(self, local: LocalMarkerWriter, topics: TopicDirectory) -> MarkerWriter:
        """The way of markers: `local` writes those of partitions that this node leads."""
        assert self._nodes is not None, "nobody is known yet"
        return SharedMarkerWriter(local, topics, self._nodes, self.peers, self._own)

    def _follow(self, topics: TopicDirectory) -> FollowedPartitions | None:
        """What readers read here that others lead; None where they are to go to leaders."""
        config = self._config
        assert self._nodes is not None, "nobody is known yet"
        if not self._nodes.all_serve_readers:
            return None
        make = partial(
            FollowedPartition,
            now_ms=self._environment.wall_ms,
            producer_expiration_ms=lambda: config.get_int("producer.id.expiration.ms"),
            on_written=lambda _: None,
            durable_appends=True,
        )
        return FollowedPartitions(
            self._nodes,
            self.life.partitions,
            self._environment,
            topics.by_id,
            make=make,
            silent_ms=lambda: config.get_int("broker.session.timeout.ms"),
            own=self._own,
        )

    def share_state(self, topics: TopicDirectory) -> PeerShareState:
        """The way to share coordinators in other nodes."""
        assert self._nodes is not None, "nobody is known yet"
        return PeerShareState(self._nodes, topics, self.peers, self._own)

    def _connections(self, nodes: Nodes) -> Peers:
        listener = between_nodes(self._config)

        def places() -> dict[int, Place]:
            return {one.node_id: Place(one.endpoint, one.epoch) for one in nodes.reached(listener)}

        return PeerConnections(places, self._config, self._environment)

    def producer_ids(self) -> IncarnationIds:
        """Those of this life."""
        return IncarnationIds(self.life.who.number)

    def follow_leaders(self, services: Services) -> None:
        """Coordinators begin and end with the partitions of their topics, before any is opened."""
        shards = services.shards_by_topic()

        def opened(topic: Topic, partition: Partition) -> None:
            if topic.name in shards:
                shards[topic.name].open([partition])

        def given_up(topic: Topic, index: int) -> None:
            if topic.name in shards:
                shards[topic.name].give_up(index)

        services.topics.to_open.on_opened.append(opened)
        services.topics.led.on_given_up.append(given_up)
        self.life.commits.on_lost = services.topics.led.lost
        services.topics.led.confirm = services.transactions.confirm = self.life.owns
        self.followed = self._follow(services.topics)

    async def die(self) -> None:
        """As a process does that is killed."""
        await self.life.leave()
        if self._peers is not None:
            await self._peers.close()

    async def leave(self, partitions: Sequence[Partition]) -> None:
        """Commit what is left of partitions that nobody writes any more, and be gone. Raises `StorageFailed`."""
        await self.life.close(partitions)
        if self._peers is not None:
            await self._peers.close()


def give_up(services: Services) -> None:
    """Of a node that has died in a process that goes on: nobody waits for it any more."""
    services.waiting.close()
    services.client_metrics.close()
    for shards in services.shards_by_topic().values():
        shards.close()
    services.cluster.take_no_more()
