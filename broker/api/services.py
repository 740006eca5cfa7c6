"""What a running node offers to the handlers of requests.

Made once, when the node has started, and complete from then on. Handlers name the parts they use by a protocol of their
own, put together from the `With…` below: what a handler can reach is read in its signature, and a test brings no more
than that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker.api.client_metrics import ClientMetrics
from broker.api.described_topics import DescribedTopics
from broker.api.fetching.fetch_sessions import FetchSessions
from broker.api.share_sessions import ShareSessions
from broker.api.waiting import WaitingRoom
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.coordination.access.acls import FollowedAcls
from broker.coordination.across_nodes.followed_partitions import FollowedPartitions
from broker.coordination.across_nodes.forwarding import Controller
from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.across_nodes.peer_ends import PeerEnds
from broker.coordination.across_nodes.peer_gate import PeerGate
from broker.coordination.cluster import Cluster
from broker.coordination.consumer_groups.expressions import ExpressionResolver
from broker.coordination.coordinators import Shards
from broker.coordination.marker_writer import LocalMarkerWriter
from broker.coordination.share_groups.errands import ShareErrands
from broker.coordination.share_groups.state import ShareStateKeeper
from broker.coordination.streams_groups.internal_topics import InternalTopicMaker
from broker.coordination.topics import TopicDirectory
from broker.coordination.transactions import TransactionShards
from broker.journal.journal import Journal
from broker.partitions.committing import Committing
from broker.partitions.opening import BatchOpener
from broker.partitions.share.share_partitions import SharePartitions
from broker.process.environment import Environment
from broker.process.memory_budget import AnswerBudget
from broker.security.authorizer import Authorizer
from broker.security.quotas.client_quotas import ClientQuotas
from broker.security.quotas.connection_rates import ConnectionRates
from broker.security.sasl.listener import SaslListener
from broker.upkeep.checkpoints import Checkpoints
from broker.upkeep.pinned_moments import PinnedMoments
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.ports import ProducerIds
from protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE


class Others(Protocol):
    """What other nodes are asked for."""

    @property
    def controller(self) -> Controller: ...

    @property
    def gate(self) -> PeerGate: ...

    @property
    def ends(self) -> PeerEnds: ...

    @property
    def followed(self) -> FollowedPartitions | None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """See the head of this file."""

    cluster_id: str
    config: BrokerConfig
    environment: Environment
    versions: Mapping[int, range]
    """api key → the versions that ApiVersions lists."""
    cluster: Cluster
    nodes: Nodes
    topics: TopicDirectory
    transactions: TransactionShards
    groups: Shards[GroupCoordinator]
    producer_ids: ProducerIds
    coordinator_markers: LocalMarkerWriter
    """Markers of coordinators, in this node or another, for what this node leads."""
    operator_markers: LocalMarkerWriter
    """Markers that no coordinator has decided."""
    group_commit: Committing
    expressions: ExpressionResolver
    """Of subscriptions of consumer groups."""
    share_state: ShareStateKeeper
    """Of share partitions, whoever serves them."""
    internal_topics: InternalTopicMaker
    """Of streams groups."""
    share_errands: ShareErrands
    """What share groups have kept and forgotten there."""
    batch_opener: BatchOpener
    checkpoints: Checkpoints
    fetch_sessions: FetchSessions
    share_partitions: SharePartitions
    share_sessions: ShareSessions
    answer_budget: AnswerBudget
    client_metrics: ClientMetrics
    client_quotas: ClientQuotas
    connection_rates: ConnectionRates
    sasl: Mapping[str, SaslListener]
    """By listener; of those that speak it."""
    fail: Callable[[BaseException], None]
    """Storage has failed: the process is to end."""
    journal: Journal | None = None
    """None where `tallystick.journal.bytes` is 0, or nobody can ask it."""
    pins: PinnedMoments | None = None
    """None where all is kept in memory."""
    others: Others | None = None
    """The way to other nodes; None where this one is alone."""
    acls: FollowedAcls | None = None
    """Those that the authorizer goes by."""
    waiting: WaitingRoom = field(default_factory=WaitingRoom)
    described_topics: DescribedTopics = field(default_factory=DescribedTopics)

    @property
    def node_id(self) -> int:
        return self.nodes.node_id

    @property
    def epoch(self) -> int:
        """This start's. Of a node that is alone it is the leader epoch of all partitions, and the coordinator epoch of
        all shards."""
        return self.nodes.own_epoch

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Where a client of a listener is to come back to."""
        return self.nodes.endpoints

    @property
    def controller(self) -> Controller | None:
        """Who is asked for changes of the metadata where it may be another node."""
        return None if self.others is None else self.others.controller

    @property
    def peer_gate(self) -> PeerGate | None:
        """The way to coordinators in other nodes."""
        return None if self.others is None else self.others.gate

    @property
    def peer_ends(self) -> PeerEnds | None:
        """Where partitions end that other nodes lead."""
        return None if self.others is None else self.others.ends

    @property
    def followed(self) -> FollowedPartitions | None:
        """What other nodes lead and is read here; None where every reader goes to the leader."""
        return None if self.others is None else self.others.followed

    @property
    def authorizer(self) -> Authorizer | None:
        """None where everybody may do everything."""
        return None if self.acls is None else self.acls.authorizer

    def shards_by_topic(self) -> dict[str, Shards[Any]]:
        """Those of all coordinators, by the topics that they keep what they know in."""
        return {
            TRANSACTION_STATE: self.transactions,
            CONSUMER_OFFSETS: self.groups,
            SHARE_GROUP_STATE: self.share_state.shards,
        }


class WithNodeId(Protocol):
    @property
    def node_id(self) -> int: ...


class WithEpoch(Protocol):
    @property
    def epoch(self) -> int: ...


class WithConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class WithEnvironment(Protocol):
    @property
    def environment(self) -> Environment: ...


class WithSasl(Protocol):
    @property
    def sasl(self) -> Mapping[str, SaslListener]: ...


class WithNodes(Protocol):
    @property
    def nodes(self) -> Nodes: ...


class WithEndpoints(WithNodeId, WithNodes, Protocol):
    @property
    def endpoints(self) -> Mapping[str, Endpoint]: ...


class WithCluster(Protocol):
    @property
    def cluster(self) -> Cluster: ...


class WithController(Protocol):
    @property
    def controller(self) -> Controller | None: ...


class WithPeerEnds(Protocol):
    @property
    def peer_ends(self) -> PeerEnds | None: ...


class WithTopics(Protocol):
    @property
    def topics(self) -> TopicDirectory: ...


class WithExpressions(Protocol):
    @property
    def expressions(self) -> ExpressionResolver: ...


class WithShareState(Protocol):
    @property
    def share_state(self) -> ShareStateKeeper: ...


class WithInternalTopics(Protocol):
    @property
    def internal_topics(self) -> InternalTopicMaker: ...


class WithShareErrands(Protocol):
    @property
    def share_errands(self) -> ShareErrands: ...


class WithTransactions(Protocol):
    @property
    def transactions(self) -> TransactionShards: ...


class WithGroups(Protocol):
    @property
    def groups(self) -> Shards[GroupCoordinator]: ...
