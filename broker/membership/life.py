"""The life of a node over a shared store: it begins beside others, says each so often that it goes on, and ends.

A later start of the same node ends the earlier one at once. A node that was silent for `broker.session.timeout.ms` is
ended by the others (`membership`).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.coordination.cluster import Cluster
from broker.disk.data_identity import directory_of, draw_id
from broker.membership.about import About
from broker.membership.members import Membership
from broker.partitions.owned_partition import OwnedPartition
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.bringing import Own
from broker.shared.commits import SharedCommits
from broker.shared.ownership import Ownership
from broker.shared.partitions import SharedPartitions
from broker.shared.patience import Patience
from storage.checkpoints import MetaProperties
from storage.log import StorageFailed
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import Fenced, Incarnation, SharedStore, StartRefused, StoreRefused, StoreUnreachable

FORGOTTEN_AFTER_MS = 60_000
"""How long an object of which no log holds anything stays, for readers that hold on."""
FORGOTTEN_AT_ONCE = 1000
COLLECT_EACH = 10
"""Heartbeat intervals."""

_log = EventLog("life")


class SharedLife:
    """That of one node. `own` runs work in a task of the node's; `fail` ends it, where its life is over."""

    def __init__(
        self,
        store: SharedStore,
        config: BrokerConfig,
        environment: Environment,
        *,
        own: Own,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._config = config
        self._environment = environment
        self._own = own
        self._fail = fail
        self.commits = SharedCommits(
            store, environment, on_failure=fail, linger_ms=config.get_int("tallystick.store.objects.linger.ms")
        )
        self._cluster_is = ""
        """Its id, once the store was reached."""
        self._who: Incarnation | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._looking: asyncio.Task[None] | None = None
        self._partitions: SharedPartitions | None = None
        self._ownership: Ownership | None = None
        self._membership: Membership | None = None

    @property
    def who(self) -> Incarnation:
        assert self._who is not None, "its life has not begun"
        return self._who

    @property
    def partitions(self) -> SharedPartitions:
        """Where its logs are."""
        assert self._partitions is not None, "its life has not begun"
        return self._partitions

    @property
    def membership(self) -> Membership:
        """What it knows of the others."""
        assert self._membership is not None, "its life has not begun"
        return self._membership

    async def open(self) -> None:
        """Until the store is reached, for the first time. Raises `StartRefused`."""
        patience = Patience("the start waits", is_seen=True)
        try:
            await patience.until_reached(self._store.open)
            self._cluster_is = await self._cluster_id(patience)
        except StoreRefused as refused:
            raise StartRefused(str(refused)) from refused

    async def begin(self, endpoints: Mapping[str, Endpoint]) -> MetaProperties:
        """Live beside the others from now on. Returns who this node is. Raises `StartRefused`."""
        config, patience = self._config, Patience("the start waits", is_seen=True)
        directory = draw_id(self._environment.random_bytes)
        kinds = {name: config.security_protocol(name).number for name in endpoints}
        about = About(
            tuple((name, one.host, one.port, kinds[name]) for name, one in endpoints.items()),
            config.rack,
            directory_of(directory),
        )
        if not self._cluster_is:
            await self.open()
        try:
            asked_ms = self._environment.monotonic_ms()
            who = await patience.until_reached(lambda: self._store.join(config.node_id, about.to_bytes()))
        except StoreRefused as refused:
            raise StartRefused(str(refused)) from refused
        self._who = who
        memory = ReadMemory(
            config.get_int("tallystick.store.memory.bytes"), config.get_int("tallystick.store.pending.bytes")
        )
        self.commits.begin(who, memory, asked_ms, config.get_int("broker.session.timeout.ms"))
        self._partitions = SharedPartitions(
            self._store,
            who,
            self._environment,
            memory,
            own=self._own,
            read_ahead_bytes=config.get_int("tallystick.store.read.ahead.bytes"),
        )
        self._ownership = Ownership(self._store, who, self._own)
        self._begin(self._while_it_lasts(self._beat(who)))
        self._begin(self._while_it_lasts(self._collect()))
        _log.info("this node lives", node=who.node_id, incarnation=who.number)
        return MetaProperties(self._cluster_is, config.node_id, directory)

    async def wait_until_registered(self, cluster: Cluster, on_lead: Callable[[], Awaitable[None]]) -> None:
        """Follow the metadata, or lead it, until it knows of this life; `on_lead` is awaited where this node becomes
        the controller, now or later. Raises `StorageFailed`."""
        self._membership = Membership(
            self._store,
            self.who,
            cluster,
            self.partitions,
            self._environment,
            silent_ms=lambda: self._config.get_int("broker.session.timeout.ms"),
            own=self._own,
            on_lead=on_lead,
            fail=self._fail,
        )
        await self._membership.wait_until_registered()
        self._looking = self._begin(self._membership.keep_looking())

    def made_with(self, make: Callable[..., Partition]) -> Callable[..., Partition]:
        """Partitions over logs that have something to tell them. Nothing is read of one while somebody else may have
        taken this node's place: it could be behind, and a reader who is not would be sent back."""
        kind = OwnedPartition if make is Partition else make
        may_be_behind = self._may_be_behind

        def made(**known: Any) -> Partition:
            partition = kind(**known)
            assert isinstance(partition, OwnedPartition), "the other kinds are made of it"
            partition.may_be_behind = may_be_behind
            log = partition.log
            assert isinstance(log, SharedLog), "in a shared store all logs are"
            log.on_changed = lambda: self.commits.wrote(partition)
            log.on_readable = partition.became_readable
            return partition

        return made

    def owns(self, partition: Partition) -> Awaitable[bool]:
        """Whether no other node had a partition of this one when this was asked."""
        assert self._ownership is not None, "its life has not begun"
        log = partition.log
        assert isinstance(log, SharedLog), "in a shared store all logs are"
        return self._ownership.of(log, partition.topic_id, partition.index)

    def _may_be_behind(self) -> bool:
        """Whether it was not heard for so long that its place may be taken, or has not looked for as long, so that it
        does not know of what others lead by now."""
        if self.commits.silence() is not None:
            return True
        membership = self._membership
        if membership is None:
            return False
        silent_ms = self._config.get_int("broker.session.timeout.ms")
        return self._environment.monotonic_ms() - membership.looked_ms > silent_ms

    async def _cluster_id(self, patience: Patience) -> str:
        drawn = draw_id(self._environment.random_bytes)
        wanted = self._config.cluster_id
        return await patience.until_reached(lambda: self._store.cluster_id(wanted, drawn))

    def _begin(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        return task

    async def _while_it_lasts(self, work: Coroutine[Any, Any, None]) -> None:
        """`work` never ends by itself: where it fails, the life is over, and the node ends."""
        try:
            await work
        except (Fenced, StoreRefused) as over:
            self._fail(StorageFailed(str(over)))
        except Exception as error:  # noqa: BLE001  others would take this node for dead, and nobody would know why
            _log.bug("the life of this node cannot go on", error)
            self._fail(error)

    async def _beat(self, who: Incarnation) -> None:
        """Nothing stands before a heartbeat: who is late with them is taken for dead."""
        patience = Patience("nobody is told that this node lives")
        while True:
            await asyncio.sleep(self._heartbeat_s)
            await patience.until_reached(lambda: self._heard(who))

    async def _collect(self) -> None:
        patience = Patience("nothing is removed of what no log holds any more")
        while True:
            await asyncio.sleep(COLLECT_EACH * self._heartbeat_s)
            removed = FORGOTTEN_AT_ONCE
            while removed == FORGOTTEN_AT_ONCE:
                removed = await patience.until_reached(
                    lambda: self._store.collect(FORGOTTEN_AFTER_MS, FORGOTTEN_AT_ONCE)
                )
                await asyncio.sleep(0)

    @property
    def _heartbeat_s(self) -> float:
        return self._config.get_int("broker.heartbeat.interval.ms") / 1000

    async def _heard(self, who: Incarnation) -> None:
        sent_ms = self._environment.monotonic_ms()
        await self._store.heartbeat(who)
        self.commits.heard(sent_ms)

    def rest(self) -> None:
        """An orderly end begins: write nothing into the metadata by itself any more, but say that this node lives."""
        if self._membership is not None:
            self._membership.rest()
        if self._looking is not None:
            self._looking.cancel()

    async def close(self, partitions: Sequence[Partition]) -> None:
        """Commit what is left, and leave: nobody need wait until this node was silent for long. Nobody writes any more.
        Raises `StorageFailed`."""
        await self.commits.close(partitions)
        try:
            await self.leave()
        except StoreUnreachable as error:
            _log.warning("the store does not know that this node has left", reason=error)
        await self._store.close()

    async def leave(self) -> None:
        """Be over at once, for the others, too. Raises `StoreUnreachable`."""
        self.abandon()
        if self._who is not None:
            await self._store.leave(self._who)
            with contextlib.suppress(StoreUnreachable, StoreRefused):  # A hint.
                await self._store.tell()

    def abandon(self) -> None:
        """Say and commit nothing more."""
        self.commits.abandon()
        for task in self._tasks:
            task.cancel()
