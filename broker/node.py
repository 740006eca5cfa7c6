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
from broker.api.handlers.administration.telemetry import RECEIVE
from broker.api.noted.requests import around_handlers
from broker.api.otlp import decoder
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.coordination.cluster import Cluster
from broker.coordination.cluster_opening import open_cluster
from broker.coordination.coordinators import Shards
from broker.coordination.first_users import FirstUsers
from broker.coordination.forgotten_offsets import ForgottenOffsets
from broker.coordination.producer_ids import ProducerIdSource
from broker.coordination.share_groups.upkeep import ForgottenShares, prune
from broker.coordination.topics import TopicDirectory
from broker.coordination.transactions import reconcile
from broker.disk.closing import close_partitions
from broker.disk.data_identity import directory_of, draw_id, open_data_folder
from broker.disk.group_commit import GroupCommit
from broker.journal.journal import Journal, OfId
from broker.made_services import make_services
from broker.partitions.committing import Committing
from broker.partitions.errors import vital
from broker.partitions.measured_partition import MeasuredPartition
from broker.partitions.partition import Partition
from broker.partitions.partition_store import FolderStore, MemoryStore, PartitionStore
from broker.partitions.topic import Topic
from broker.process.eager import Finished, begin
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.security.sasl.listener import sasl_listeners
from broker.shared.life import SharedLife
from broker.upkeep.housekeeping import Housekeeping
from protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
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
    transaction that is over (`Journal.on_ended`). With a `store` its logs are there, and not in a data folder.
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
    ) -> None:
        self.config = config
        self.environment = environment
        self.faults = faults
        budget_bytes = config.get_int("tallystick.journal.bytes")
        is_read = faults is not None or traced is not None or bool(config.get_str("tallystick.http").strip())
        # Else it would be for nobody.
        self.journal = Journal(environment.wall_ms, budget_bytes) if budget_bytes and is_read else None
        if self.journal is not None:
            self.journal.on_ended = traced
        handlers = served(config) if self.journal is None else around_handlers(self.journal, served(config))
        self.catalogue = handlers if faults is None else faults.around_handlers(handlers)
        self.decode_metrics = decoder() if config.get_bool(RECEIVE) else None
        self.failure: BaseException | None = None
        self.data_folder: DataFolder | None = None
        self._shared = None if store is None else SharedLife(store, config, environment, own=self.own, fail=self.fail)
        self.group_commit: Committing = GroupCommit(environment, on_failure=self.fail)
        if self._shared is not None:
            self.group_commit = self._shared.commits
        self.sasl = sasl_listeners(config, environment, self._credential_of)
        self._first_users = FirstUsers(config, environment)
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: list[asyncio.Task[None]] = []
        self._partition_sources: list[Callable[[], Sequence[Partition]]] = []
        self._running: _Running | None = None

    # ------------------------------------------------------------------ life

    async def wait_until_it_may_serve(self) -> None:
        """A standby waits here, before it listens. Every other node may serve at once."""
        if self._shared is not None:
            await self._shared.wait_until_begun()

    async def start(self, endpoints: Mapping[str, Endpoint] | None = None) -> Services:
        """Everything a client may ask for is there when this returns; coordinators may still be loading.

        `endpoints` holds the advertised address of each listener.
        """
        asyncio.get_running_loop().set_exception_handler(self._loop_exception)
        try:
            return await self._start(endpoints or {})
        except (StorageFailed, OSError) as error:
            self.fail(error)
            raise

    async def _start(self, endpoints: Mapping[str, Endpoint]) -> Services:
        store, identity = await self._open_store()
        cluster = await self._open_cluster(store, identity, endpoints)
        await self._first_users.add(cluster)
        topics = TopicDirectory(
            cluster=cluster,
            config=self.config,
            environment=self.environment,
            store=store,
            directory=directory_of(identity.directory_id),
            on_written=self.group_commit.wrote,
            make_partition=self._make_partition,
        )
        producer_ids = ProducerIdSource(cluster, self.config.node_id)
        producer_ids.prefetch()
        services = make_services(self, identity, cluster, topics, producer_ids, endpoints)
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
        topics.on_deleted(ForgottenOffsets(services.groups, self.own).forget)
        topics.on_deleted(ForgottenShares(services.share_state.shards, self.own).forget)
        topics.before_reuse(lambda topic: self._forget_checkpoints(services, topic))
        topics.load()
        if self.data_folder is not None and self.data_folder.forget_others(topics.partition_names()):
            await services.checkpoints.write()
        if self._shared is not None:
            await self._shared.partitions.wait_until_tidy(cluster.image.by_id)
        self._opening.append(self.own(self._open_the_rest(services)))
        housekeeping.start()
        _log.info("started", node=services.node_id, cluster=services.cluster_id, epoch=services.epoch)
        return services

    def _credential_of(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        if self._running is None:
            return None
        return self._running.services.cluster.image.scram_users.kept.get((name, mechanism))

    async def _open_cluster(
        self, store: PartitionStore, identity: MetaProperties, endpoints: Mapping[str, Endpoint]
    ) -> Cluster:
        """The metadata log, loaded, with the epoch of this start in it."""
        return await open_cluster(
            store,
            self.environment,
            self.config,
            on_written=self.group_commit.wrote,
            make_partition=self._make_partition,
            made=lambda partition: self._partition_sources.append(lambda: [partition]),
            data_folder=self.data_folder,
            endpoints=tuple(
                (name, endpoint.host, endpoint.port, self.config.security_protocol(name).number)
                for name, endpoint in endpoints.items()
            ),
            directory=directory_of(identity.directory_id),
        )

    @property
    def _make_partition(self) -> Callable[..., Partition]:
        make: Callable[..., Partition] = Partition
        if self.faults is not None:
            make = self.faults.partition_class()
        elif self.config.get_str("tallystick.http"):
            make = MeasuredPartition
        return make if self._shared is None else self._shared.made_with(make)

    async def _open_store(self) -> tuple[PartitionStore, MetaProperties]:
        random_bytes = self.environment.random_bytes
        if self._shared is not None:
            await self._shared.wait_until_begun()
            cluster_id = await self._shared.cluster_id()
            return self._shared.partitions, MetaProperties(cluster_id, self.config.node_id, draw_id(random_bytes))
        if self.config.in_memory:
            drawn = self.config.cluster_id or draw_id(random_bytes)
            return MemoryStore(), MetaProperties(drawn, self.config.node_id, draw_id(random_bytes))
        files = self.environment.files if self.faults is None else self.faults.around_files(self.environment.files)
        folder, identity = open_data_folder(
            files, self.config, boot_id=self.environment.boot_id(), random_bytes=random_bytes
        )
        self.data_folder = folder
        store = FolderStore(
            files,
            now_ms=self.environment.wall_ms,
            recovery=folder.recovery_of,
            delete_delay_ms=lambda: self.config.get_int("log.segment.delete.delay.ms"),
            on_sync_failed=folder.distrust,
        )
        return store, identity

    def _topic_created(self, services: Services, topic: Topic) -> None:
        if topic.name == TRANSACTION_STATE:
            self._opening.append(self.own(self._open_shards(services, services.transactions, topic)))
        elif topic.name == CONSUMER_OFFSETS:
            self._opening.append(self.own(self._open_shards(services, services.groups, topic)))
        elif topic.name == SHARE_GROUP_STATE:
            self._opening.append(self.own(self._open_shards(services, services.share_state.shards, topic)))

    async def _open_shards(self, services: Services, shards: Shards[Any], topic: Topic) -> None:
        await services.topics.wait_until_open([topic])
        if topic.partitions.first_closed() is None:  # else it was deleted
            shards.open(topic.partitions)

    async def _forget_checkpoints(self, services: Services, topic: Topic) -> None:
        """What was written down of a deleted topic is not to be believed of one with the same name after a crash: its
        log would begin where that of the deleted one did, and what was acknowledged below would be gone."""
        if self.data_folder is None:
            return
        written = [self.data_folder.forget(topic.name, index) for index in range(len(topic.partitions))]
        logs = [partition.log for partition in topic.partitions.opened()]
        if any(written) or any(log.start_offset or log.recovery_point for log in logs):
            await services.checkpoints.write()

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
        await services.transactions.wait_until_loaded()
        await services.groups.wait_until_loaded()
        await services.share_state.shards.wait_until_loaded()
        if orphans := await reconcile(services):
            _log.error("orphaned transactions were aborted", count=orphans)

    async def stop(self) -> None:
        """An orderly end. Nothing is to be recovered at the next start."""
        assert self._running is not None, "never started"
        services = self._running.services
        await self._running.housekeeping.stop()
        services.waiting.close()
        services.client_metrics.close()
        for task in self._opening:
            task.cancel()
        services.topics.to_open.stop()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=FINISH_WORK_S)
        services.transactions.close()
        services.groups.close()
        services.share_state.shards.close()
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
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=FINISH_WORK_S)

    async def _close_logs(self, services: Services) -> None:
        if self._shared is not None:
            await self._shared.close(self.open_partitions())
        await close_partitions(self.environment, services.topics.opened())
        services.cluster.close()
        if self.data_folder is not None:
            if services.topics.to_open.half_done:
                self.data_folder.damaged()
            self.data_folder.checkpoint(*await services.checkpoints.offsets())
            self.data_folder.close_cleanly()

    def abandon(self) -> None:
        """After a failure: touch nothing any more. The next start recovers."""
        if self._shared is not None:
            self._shared.abandon()
        if self._running is not None:
            self._running.services.topics.to_open.give_up()
        for task in list(self._tasks):
            task.cancel()

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

    def _loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
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
