"""What a node offers to its handlers, made once when it starts: the shards of coordinators, and what is around them."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from broker.api.catalogue import Entry
from broker.api.client_metrics import ClientMetrics
from broker.api.fetching.fetch_sessions import FetchSessions
from broker.api.otlp import Decode
from broker.api.services import Services
from broker.api.share_sessions import ShareSession, ShareSessions
from broker.beside_others import BesideOthers
from broker.config.broker_config import BrokerConfig
from broker.coordination.access.acls import followed_acls
from broker.coordination.access.followed_quotas import follow_quotas
from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.cluster import Cluster
from broker.coordination.consumer_groups.expressions import ExpressionResolver
from broker.coordination.coordinators import Shards
from broker.coordination.groups import make_group_shards
from broker.coordination.marker_writer import LocalMarkerWriter
from broker.coordination.share_groups.errands import ShareErrands
from broker.coordination.share_groups.record_settings import ConfiguredShareRecords
from broker.coordination.share_groups.state import ShareStateKeeper, make_share_shards
from broker.coordination.streams_groups.internal_topics import InternalTopicMaker
from broker.coordination.topics import TopicDirectory
from broker.coordination.transactions import TransactionShards, make_transaction_shards
from broker.disk.local_files import LocalFiles
from broker.journal.journal import Journal
from broker.network.sweeping import in_slices
from broker.partitions.committing import Committing
from broker.partitions.opening import BatchOpener
from broker.partitions.partition import Partition
from broker.partitions.share.share_partitions import SharePartitions
from broker.process.environment import Environment
from broker.process.memory_budget import AnswerBudget
from broker.security.sasl.listener import SaslListener
from broker.upkeep.checkpoints import Checkpoints
from broker.upkeep.pinned_moments import PinnedMoments
from coordinator.cluster.features import TRANSACTION_VERSION
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.ports import MarkerWriter, ProducerIds
from storage.checkpoints import MetaProperties
from storage.data_folder import DataFolder

SESSION_EVICTION_MS = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`."""


class Offering(Protocol):
    """The node: what its services are made of."""

    config: BrokerConfig
    environment: Environment
    catalogue: dict[int, Entry]
    data_folder: DataFolder | None
    sasl: dict[str, SaslListener]
    group_commit: Committing
    decode_metrics: Decode | None
    journal: Journal | None

    def own(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run work in a task of the node's own."""

    def open_partitions(self) -> list[Partition]:
        """Those that are open now."""

    def fail(self, error: BaseException) -> None:
        """Storage has failed: the process is to end."""


def make_services(
    node: Offering,
    identity: MetaProperties,
    cluster: Cluster,
    nodes: Nodes,
    topics: TopicDirectory,
    producer_ids: ProducerIds,
    others: BesideOthers | None = None,
) -> Services:
    """Complete from the start; the coordinators load later."""
    config, environment = node.config, node.environment
    groups, share_state = _groups(node, cluster, topics), _share_state(node, topics, others)
    own_markers, operator_markers = _marker_writers(node, topics, groups, nodes)
    markers = own_markers if others is None else others.markers(own_markers, topics)
    share_partitions = _share_partitions(node, cluster, share_state)
    acls, quotas = followed_acls(cluster, config, environment), follow_quotas(cluster, config, environment)
    return Services(
        cluster_id=identity.cluster_id,
        config=config,
        environment=environment,
        versions={key: entry.advertised for key, entry in node.catalogue.items()},
        cluster=cluster,
        nodes=nodes,
        topics=topics,
        transactions=_transactions(node, cluster, topics, markers, producer_ids),
        groups=groups,
        producer_ids=producer_ids,
        coordinator_markers=own_markers,
        operator_markers=operator_markers,
        group_commit=node.group_commit,
        share_state=share_state,
        share_partitions=share_partitions,
        share_sessions=_share_sessions(node, share_partitions),
        share_errands=ShareErrands(groups, share_state, topics, node.own),
        expressions=ExpressionResolver(groups, topics, environment, node.own),
        internal_topics=InternalTopicMaker(topics, environment, node.own),
        batch_opener=BatchOpener(environment),
        checkpoints=_checkpoints(node, topics),
        pins=_pins(node, topics),
        fetch_sessions=_fetch_sessions(node),
        answer_budget=AnswerBudget(config.get_int("tallystick.request.memory.bytes")),
        client_metrics=_client_metrics(node, cluster),
        client_quotas=quotas[0],
        connection_rates=quotas[1],
        sasl=node.sasl,
        fail=node.fail,
        journal=node.journal,
        acls=acls,
        others=others,
    )


def _marker_writers(
    node: Offering, topics: TopicDirectory, groups: Shards[GroupCoordinator], nodes: Nodes
) -> tuple[LocalMarkerWriter, LocalMarkerWriter]:
    """That of the coordinator in this node, and that of others."""
    of_coordinator, of_others = (
        LocalMarkerWriter(
            topics=topics,
            groups=groups,
            environment=node.environment,
            publish=node.group_commit.publish,
            of_coordinator=own,
            lifts=own and nodes.is_alone,
            journal=node.journal,
        )
        for own in (True, False)
    )
    return of_coordinator, of_others


def _transactions(
    node: Offering,
    cluster: Cluster,
    topics: TopicDirectory,
    writer: MarkerWriter,
    producer_ids: ProducerIds,
) -> TransactionShards:
    return make_transaction_shards(
        config=node.config,
        environment=node.environment,
        topics=topics,
        writer=writer,
        publish=node.group_commit.publish,
        producer_ids=producer_ids,
        transaction_version=lambda: cluster.finalized_features.get(TRANSACTION_VERSION, 0),
        journal=node.journal,
    )


def _groups(node: Offering, cluster: Cluster, topics: TopicDirectory) -> Shards[GroupCoordinator]:
    return make_group_shards(
        config=node.config,
        environment=node.environment,
        topics=topics,
        own_configs=lambda group_id: cluster.image.group_configs.get(group_id, {}),
        publish=node.group_commit.publish,
    )


def _share_state(node: Offering, topics: TopicDirectory, others: BesideOthers | None) -> ShareStateKeeper:
    config, environment, publish = node.config, node.environment, node.group_commit.publish
    shards = make_share_shards(config=config, environment=environment, topics=topics, publish=publish)
    return ShareStateKeeper(shards, None if others is None else others.share_state(topics))


def _share_partitions(node: Offering, cluster: Cluster, state: ShareStateKeeper) -> SharePartitions:
    settings = ConfiguredShareRecords(node.config, lambda group_id: cluster.image.group_configs.get(group_id, {}))
    return SharePartitions(persister=state, settings_of=settings.of, environment=node.environment, own=node.own)


def _share_sessions(node: Offering, share_partitions: SharePartitions) -> ShareSessions:
    async def end(session: ShareSession) -> None:
        await share_partitions.session_ended(session.group_id, session.member_id, session.wanted)
        if not sessions.has_any_of(session.group_id):
            share_partitions.let_go_group(session.group_id)

    sessions = ShareSessions(
        slots=lambda: node.config.get_int("group.share.max.share.sessions"),
        most_partitions=lambda: node.config.get_int("tallystick.fetch.session.partitions.max"),
        on_end=lambda session: node.own(end(session)),
    )
    return sessions


def _client_metrics(node: Offering, cluster: Cluster) -> ClientMetrics:
    return ClientMetrics(
        lambda: cluster.image,
        node.environment,
        own=node.own,
        decode=node.decode_metrics,
        in_memory=not node.config.has_files,
    )


def _checkpoints(node: Offering, topics: TopicDirectory) -> Checkpoints:
    environment, partitions, own = node.environment, node.open_partitions, node.own
    return Checkpoints(node.data_folder, topics=topics, open_partitions=partitions, environment=environment, own=own)


def _pins(node: Offering, topics: TopicDirectory) -> PinnedMoments | None:
    files = node.environment.files if node.config.has_files else None
    if not isinstance(files, LocalFiles):
        return None
    return PinnedMoments(
        files,
        node.environment,
        topics,
        open_partitions=node.open_partitions,
        own=node.own,
    )


def _fetch_sessions(node: Offering) -> FetchSessions:
    return FetchSessions(
        draw_id=lambda: int.from_bytes(node.environment.random_bytes(4), "big") & 0x7FFFFFFF,
        slots=lambda: node.config.get_int("max.incremental.fetch.session.cache.slots"),
        eviction_ms=lambda: SESSION_EVICTION_MS,
        most_partitions=lambda: node.config.get_int("tallystick.fetch.session.partitions.max"),
        in_slices=lambda steps: in_slices(steps, node.environment.time_slice(), _nothing),
    )


def _nothing() -> None:
    """What is done when work in slices is over."""
