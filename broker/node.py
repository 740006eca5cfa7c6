"""A node: everything a broker is but its sockets. Tests and simulations run it without any.

Start, in this order: whose data folder it is; the metadata log; a new epoch, durable before anything else happens; the
topics, opened with that epoch; the coordinators, which load in the background and answer 14 meanwhile.
Stop, in this order: housekeeping, and opening what is not open yet; what clients asked for; coordinators; what is dirty
is synced; logs are closed; the mark of a clean end.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.api.api_families import served
from broker.api.forwarded import with_forwarding
from broker.api.handlers.administration.telemetry import RECEIVE
from broker.api.noted.requests import around_handlers
from broker.api.otlp import decoder
from broker.api.services import Services
from broker.beside_others import BesideOthers, MakePeers, give_up
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.coordination.access.first_users import FirstUsers
from broker.coordination.across_nodes.nodes import Nodes, OneNode
from broker.coordination.cluster import Cluster
from broker.coordination.cluster_opening import open_cluster
from broker.coordination.coordinators import Shards
from broker.coordination.forgotten_offsets import ForgottenOffsets
from broker.coordination.producer_ids import ProducerIdSource
from broker.coordination.share_groups.upkeep import ForgottenShares, prune
from broker.coordination.topics import TopicDirectory
from broker.coordination.transactions import reconcile
from broker.disk.closing import close_partitions
from broker.disk.data_identity import directory_of
from broker.disk.group_commit import GroupCommit
from broker.journal.journal import Journal, OfId
from broker.made_services import make_services
from broker.own_store import own_store
from broker.partitions.committing import Committing
from broker.partitions.errors import vital
from broker.partitions.measured_partition import MeasuredPartition
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.partitions.topic import Topic
from broker.process.eager import Finished, begin
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.security.sasl.listener import sasl_listeners
from broker.upkeep.housekeeping import Housekeeping
from coordinator.ports import ProducerIds
from protocol.sasl.scram import ScramCredential, ScramMechanism
from storage.checkpoints import MetaProperties
from storage.data_folder import DataFolder
from storage.log import StorageFailed
from storage.shared.store import SharedStore

if TYPE_CHECKING:
    from broker.faults.control import Faults

FINISH_WORK_S = 5.0

_log = EventLog("node")


@dataclass(frozen=True, slots=True)
class _Running:
    services: Services
    housekeeping: Housekeeping


class Node:
    """See the head of this file. `on_failure` is called once when storage has failed: the process is to end.

    A node that is given `faults` has fault points in it, for tests; any other has none. `traced` is told of each
    transaction that is over (`Journal.on_ended`). With a `store` its logs are there, and not in a data folder. A
    `journal` is given to nodes that share one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        *,
        on_failure: Callable[[BaseException], None] = lambda error: None,
        faults: "Faults | None" = None,
        traced: Callable[[str, OfId], None] | None = None,
        store: SharedStore | None = None,
        make_peers: MakePeers | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.config = config
        self.environment = environment
        self.faults = faults
        budget_bytes = config.get_int("tallystick.journal.bytes")
        is_read = faults is not None or traced is not None or bool(config.get_str("tallystick.http").strip())
        if journal is None and budget_bytes and is_read:  # Else it would be for nobody.
            journal = Journal(environment.wall_ms, budget_bytes)
        self.journal = journal
        catalogue = served(config) if store is None else with_forwarding(served(config))
        if journal is not None:
            journal.on_ended, catalogue = traced, around_handlers(journal, catalogue)
        self.catalogue = catalogue if faults is None else faults.around_handlers(catalogue)
        self.decode_metrics = decoder() if config.get_bool(RECEIVE) else None
        self.failure: BaseException | None = None
        self.data_folder: DataFolder | None = None
        self._others: BesideOthers | None = None
        self.group_commit: Committing = GroupCommit(environment, on_failure=self.fail)
        if store is not None:
            self._others = BesideOthers(store, config, environment, own=self.own, fail=self.fail, make_peers=make_peers)
            self.group_commit = self._others.life.commits
        self.sasl = sasl_listeners(config, environment, self._credential_of)
        self._first_users = FirstUsers(config, environment)
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: list[asyncio.Task[None]] = []
        self._partition_sources: list[Callable[[], Sequence[Partition]]] = []
        self._running: _Running | None = None

    # ------------------------------------------------------------------ life

    async def wait_until_store_is_reached(self) -> None:
        """Before anybody is let in: a shared store may be away for long. Raises `StorageFailed`."""
        if self._others is not None:
            await self._others.life.open()

    async def start(self, endpoints: Mapping[str, Endpoint] | None = None) -> Services:
        """Everything a client may ask for is there when this returns; coordinators may still be loading.

        `endpoints` holds the advertised address of each listener.
        """
        asyncio.get_running_loop().set_exception_handler(self.loop_exception)
        try:
            return await self._start(endpoints or {})
        except (StorageFailed, OSError) as error:
            self.fail(error)
            raise

    async def _start(self, endpoints: Mapping[str, Endpoint]) -> Services:
        store, identity = await self._open_store(endpoints)
        cluster = await self._open_cluster(store, identity, endpoints)
        others = self._others
        alone = OneNode(self.config.node_id, cluster.epoch, endpoints, self.config.rack)
        nodes: Nodes = alone if others is None else others.nodes(cluster, endpoints)
        topics = TopicDirectory(
            cluster=cluster,
            config=self.config,
            environment=self.environment,
            store=store,
            nodes=nodes,
            controller=None if others is None else others.controller,
            own=self.own,
            directory=directory_of(identity.directory_id),
            on_written=self.group_commit.wrote,
            make_partition=self._make_partition,
        )
        services = make_services(self, identity, cluster, nodes, topics, self._producer_ids(cluster), others)
        if services.acls is not None:
            await services.acls.begin()
        housekeeping = Housekeeping(
            config=self.config,
            environment=self.environment,
            topics=topics,
            open_partitions=self.open_partitions,
            write_checkpoints=services.checkpoints.write,
            prune_share_state=lambda: prune(services.share_state.shards),
            sweep_moments=_nothing if services.pins is None else services.pins.sweep,
            fail=self.fail,
        )
        self._running = _Running(services, housekeeping)
        self._partition_sources.append(topics.opened)
        topics.on_created(lambda topic: self._topic_created(services, topic))
        if others is not None:
            others.follow_leaders(services)
        topics.on_deleted(ForgottenOffsets(services.groups, self.own).forget)
        topics.on_deleted(ForgottenShares(services.share_state.shards, self.own).forget)
        topics.before_reuse(services.checkpoints.forget)
        topics.load()
        if self.data_folder is not None and self.data_folder.forget_others(topics.partition_names()):
            await services.checkpoints.write()
        self._opening.append(self.own(self._open_the_rest(services)))
        housekeeping.start()
        _log.info("started", node=services.node_id, cluster=services.cluster_id, epoch=services.epoch)
        return services

    def _credential_of(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        kept = {} if self._running is None else self._running.services.cluster.image.scram_users.kept
        return kept.get((name, mechanism))

    async def _open_cluster(
        self, store: PartitionStore, identity: MetaProperties, endpoints: Mapping[str, Endpoint]
    ) -> Cluster:
        """The metadata, loaded, with the epoch of this start in it."""
        if self._others is not None:
            cluster = await self._others.join(
                on_written=self.group_commit.wrote, make_partition=self._make_partition, on_lead=self._first_users.add
            )
            self._partition_sources.append(lambda: [cluster.partition] if cluster.leads else [])
            return cluster
        cluster = await open_cluster(
            store,
            self.environment,
            self.config,
            on_written=self.group_commit.wrote,
            make_partition=self._make_partition,
            made=lambda partition: self._partition_sources.append(lambda: [partition]),
            data_folder=self.data_folder,
            endpoints=endpoints,
            directory=directory_of(identity.directory_id),
        )
        await self._first_users.add(cluster)
        return cluster

    def _producer_ids(self, cluster: Cluster) -> ProducerIds:
        if self._others is not None:
            return self._others.producer_ids()
        producer_ids = ProducerIdSource(cluster, self.config.node_id)
        producer_ids.prefetch()
        return producer_ids

    @property
    def _make_partition(self) -> Callable[..., Partition]:
        make: Callable[..., Partition] = Partition
        if self.faults is not None:
            make = self.faults.partition_class()
        elif self.config.get_str("tallystick.http"):
            make = MeasuredPartition
        return make if self._others is None else self._others.life.made_with(make)

    async def _open_store(self, endpoints: Mapping[str, Endpoint]) -> tuple[PartitionStore, MetaProperties]:
        if self._others is not None:
            identity = await self._others.life.begin(endpoints)
            return self._others.life.partitions, identity
        store, identity, self.data_folder = own_store(self.config, self.environment, self.group_commit, self.faults)
        return store, identity

    def _topic_created(self, services: Services, topic: Topic) -> None:
        if (shards := services.shards_by_topic().get(topic.name)) is not None:
            self._opening.append(self.own(self._open_shards(services, shards, topic)))

    async def _open_shards(self, services: Services, shards: Shards[Any], topic: Topic) -> None:
        await services.topics.wait_until_open([topic])
        if topic.partitions.first_closed() is None:  # else it was deleted
            shards.open(topic.partitions.present())

    async def _open_the_rest(self, services: Services) -> None:
        """In the background of a start: open every log, load every coordinator, then end transactions that nobody
        answers for."""
        await services.topics.wait_until_open()
        if self.data_folder is not None:
            with vital("the data folder could not be written"):
                if services.topics.offline():
                    self.data_folder.damaged()
                await self.environment.run_blocking(self.data_folder.recovered)
        _log.info("logs are open", offline=len(services.topics.offline()))
        if services.pins is not None:
            await services.pins.take_up()
        await asyncio.gather(*(shards.wait_until_loaded() for shards in services.shards_by_topic().values()))
        if orphans := await reconcile(services):
            _log.error("orphaned transactions were aborted", count=orphans)

    async def stop(self) -> None:
        """An orderly end. Nothing is to be recovered at the next start."""
        assert self._running is not None, "never started"
        services = self._running.services
        if self._others is not None:
            self._others.life.rest()
        await self._running.housekeeping.stop()
        services.waiting.close()
        services.client_metrics.close()
        for task in self._opening:
            task.cancel()
        services.topics.to_open.stop()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=FINISH_WORK_S)
        for shards in services.shards_by_topic().values():
            shards.close()
        await self._give_up_what_is_left()
        try:
            await services.topics.to_open.wait_until_stopped()  # a log that was opened last is still to be synced
            await self.group_commit.wait_until_idle()
            if self.failure is not None:
                self.abandon()
                return
            await services.topics.stop()
            await self._close_logs(services)
        except (StorageFailed, OSError) as error:
            # As at any other time: the next start must not believe what was not synced (decision 0010).
            self.fail(error)
            self.abandon()

    async def _give_up_what_is_left(self) -> None:
        """No request may write into a log that is being closed."""
        for task in (left := list(self._tasks)):
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=FINISH_WORK_S)

    async def _close_logs(self, services: Services) -> None:
        if self._others is not None:
            await self._others.leave(self.open_partitions())
        await close_partitions(self.environment, services.topics.opened())
        services.cluster.close()
        await self.group_commit.end()
        if self.data_folder is not None:
            if services.topics.to_open.half_done:
                self.data_folder.damaged()
            self.data_folder.checkpoint(*await services.checkpoints.offsets())
            self.data_folder.close_cleanly()

    def abandon(self) -> None:
        """After a failure: touch nothing any more. The next start recovers."""
        if self._others is not None:
            self._others.life.abandon()
        if self._running is not None:
            self._running.services.topics.to_open.give_up()
        for task in list(self._tasks):
            task.cancel()

    async def die(self) -> None:
        """Of one that shares its process with others: as a process does that is killed. What is under way is given up,
        nothing is committed any more."""
        self.abandon()
        if self._others is not None:
            await self._others.die()
        if self._running is not None:
            await self._running.housekeeping.stop()
            give_up(self._running.services)

    # ------------------------------------------------------------------ what others ask for

    @property
    def services(self) -> Services:
        """What a node that has started offers."""
        assert self._running is not None, "never started"
        return self._running.services

    @property
    def has_started(self) -> bool:
        """Whether there are services: not while a start is under way."""
        return self._running is not None

    def own(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run work in a task of the node's own: it outlives the request that began it."""
        task = asyncio.get_running_loop().create_task(work)
        self._adopt(task)
        task.add_done_callback(self._own_done)
        return task

    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        """As `own`, but begins at once, and makes a task only of what has to wait."""
        return begin(work, self._adopt)

    def _adopt(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def open_partitions(self) -> list[Partition]:
        """Those of topics as far as they are open, and that of the metadata log; of a node that starts, what it has."""
        return [partition for opened in self._partition_sources for partition in opened()]

    # ------------------------------------------------------------------ failures

    def fail(self, error: BaseException) -> None:
        """Storage has failed: waiting requests are refused, and the process is to end."""
        if self.failure is not None:
            return
        self.failure = error
        _log.error("storage failed, the broker stops", error=error)
        if self.data_folder is not None and not self.data_folder.distrust():
            _log.error("the next start cannot be told; reboot before it, so that it does not believe the page cache")
        reason = error if isinstance(error, StorageFailed) else StorageFailed(str(error))
        for partition in self.open_partitions():
            partition.fail(reason)
        self._on_failure(error)

    def _task_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), StorageFailed):
            self.fail(error)

    def _own_done(self, task: "asyncio.Task[Any]") -> None:
        """Work that no request waits for: what it raised is said here, or nowhere."""
        if self.failure is None and not task.cancelled() and (error := task.exception()) is not None:
            _log.bug("work of the node failed", error)

    def loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What no task and no caller caught: a failed disk in a timer, or a bug."""
        error = context.get("exception")
        if isinstance(error, StorageFailed):
            self.fail(error)
        elif isinstance(error, ConnectionError | TimeoutError):
            _log.debug("connection lost", reason=error)
        elif error is not None:
            _log.bug(str(context.get("message", "unhandled")), error)
        else:
            _log.error("unhandled", what=context.get("message", ""))


async def _nothing() -> None:
    """Of a node that keeps all in memory."""
