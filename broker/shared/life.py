"""The life of a node over a shared store: it begins, says each so often that it goes on, and ends.

One node serves a store at a time. Another that is started waits until that one has left, or was silent for
`broker.session.timeout.ms`, and takes its place: a standby. A later start of the same node takes it at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.config.broker_config import BrokerConfig
from broker.disk.data_identity import draw_id
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.bringing import Own
from broker.shared.commits import SharedCommits
from broker.shared.partitions import SharedPartitions
from broker.shared.patience import Patience
from protocol.errors import ErrorCode
from storage.log import StorageFailed
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import Fenced, Incarnation, SharedStore, StoreRefused, StoreUnreachable

FORGOTTEN_AFTER_MS = 60_000
"""How long an object of which no log holds anything stays, for readers that hold on."""
FORGOTTEN_AT_ONCE = 1000
COLLECT_EACH = 10
"""Heartbeats."""

_log = EventLog("life")


class SharedLife:
    """That of one node. `own` runs work in a task of the node's; `fail` ends it, where somebody else has taken its
    place."""

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
        self.commits = SharedCommits(store, environment, on_failure=fail)
        self._who: Incarnation | None = None
        self._beating: asyncio.Task[None] | None = None
        self._partitions: SharedPartitions | None = None

    @property
    def partitions(self) -> SharedPartitions:
        """Where its logs are."""
        assert self._partitions is not None, "its life has not begun"
        return self._partitions

    async def wait_until_begun(self) -> None:
        """Become the node that serves the store, once nobody else does. Raises `StorageFailed`."""
        if self._who is not None:
            return
        patience = Patience("the start waits")
        try:
            await patience.until_reached(self._store.open)
        except StoreRefused as refused:
            raise StorageFailed(str(refused)) from refused
        self._who = who = await self._registered(patience)
        config = self._config
        memory = ReadMemory(
            config.get_int("tallystick.store.memory.bytes"), config.get_int("tallystick.store.pending.bytes")
        )
        self._partitions = SharedPartitions(self._store, who, self._environment, memory, own=self._own)
        self._beating = asyncio.get_running_loop().create_task(self._beat(who))
        _log.info("this node serves the store", node=who.node_id, incarnation=who.number)

    async def _registered(self, patience: Patience) -> Incarnation:
        config, stands_by = self._config, False
        silent_ms = config.get_int("broker.session.timeout.ms")
        while True:
            asked_ms = self._environment.monotonic_ms()
            found = await patience.until_reached(lambda: self._store.register(config.node_id, silent_ms=silent_ms))
            if isinstance(found, Incarnation):
                self.commits.begin(found, asked_ms, silent_ms)
                return found
            if not stands_by:
                _log.info("another node serves the store; this one stands by", serves=found)
                stands_by = True
            await asyncio.sleep(config.get_int("broker.heartbeat.interval.ms") / 1000)

    def made_with(self, make: Callable[..., Partition]) -> Callable[..., Partition]:
        """Partitions over logs that have something to tell them. Nothing is read of one while somebody else may have
        taken this node's place: it could be behind, and a reader who is not would be sent back."""
        kind: Any = make.func if isinstance(make, partial) else make
        commits = self.commits

        class Owned(kind):  # type: ignore[misc]
            @property
            def refusal(self) -> ErrorCode:
                return ErrorCode.NONE if commits.silence() is None else ErrorCode.NOT_LEADER_OR_FOLLOWER

        given = make.args if isinstance(make, partial) else ()

        def made(**known: Any) -> Partition:
            partition: Partition = Owned(*given, **known)
            log = partition.log
            assert isinstance(log, SharedLog), "in a shared store all logs are"
            log.on_changed = lambda: self.commits.wrote(partition)
            log.on_readable = partition.became_readable
            return partition

        return made

    async def cluster_id(self) -> str:
        """Who the cluster is. Raises `StorageFailed` where it is another than the settings say."""
        drawn = draw_id(self._environment.random_bytes)
        wanted = self._config.cluster_id
        try:
            return await Patience("the start waits").until_reached(lambda: self._store.cluster_id(wanted, drawn))
        except StoreRefused as refused:
            raise StorageFailed(str(refused)) from refused

    async def _beat(self, who: Incarnation) -> None:
        patience, count = Patience("nobody is told that this node lives"), 0
        while True:
            await asyncio.sleep(self._config.get_int("broker.heartbeat.interval.ms") / 1000)
            try:
                await patience.until_reached(lambda: self._heard(who))
                count += 1
                if count % COLLECT_EACH == 0:
                    await patience.until_reached(lambda: self._store.collect(FORGOTTEN_AFTER_MS, FORGOTTEN_AT_ONCE))
            except (Fenced, StoreRefused) as over:
                self._fail(StorageFailed(str(over)))
                return

    async def _heard(self, who: Incarnation) -> None:
        sent_ms = self._environment.monotonic_ms()
        await self._store.heartbeat(who)
        self.commits.heard(sent_ms)

    async def close(self, partitions: Sequence[Partition]) -> None:
        """Commit what is left, and leave: another node need not wait until this one was silent for long. Nobody writes
        any more. Raises `StorageFailed`."""
        await self.commits.close(partitions)
        self.abandon()
        if self._who is not None:
            try:
                await self._store.leave(self._who)
            except StoreUnreachable as error:
                _log.warning("the store does not know that this node has left", reason=error)
        await self._store.close()

    def abandon(self) -> None:
        """Say nothing more."""
        if self._beating is not None:
            self._beating.cancel()
