"""Commits: one of the store serves every partition that was written meanwhile.

Rule 1. Commits of a node happen one after the other, in the order of the appends. One is a whole: what a PREPARE
        promises is in it, or in one before.
Rule 2. A commit of which nobody knows whether it was made is settled before anything else happens. One that was not
        made is tried again, with the same records at the same offsets: nobody was told anything of them.
Rule 3. While the store cannot be reached, writers wait; nothing is acknowledged.
Rule 4. A node that is fenced ends: nothing that waited is acknowledged. So does one with a bug in a commit. A log that
        is another node's by now is given up alone, but for that of the metadata: who does not own that any more was
        fenced.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from broker.disk.sync_meter import SyncMeter
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.patience import Patience
from protocol.internal_topics import CLUSTER_METADATA
from protocol.schema import Buffer
from storage.log import StorageFailed
from storage.shared.flush import SharedFlush
from storage.shared.shared_log import SharedLog
from storage.shared.store import CommitUnknown, Fenced, Incarnation, LogChange, SharedStore, StoreRefused, moved

COMMIT_BYTES = 1 << 20
"""After which the rest waits for the next one; a single log is not divided."""

LAST_COMMITS_S = 10.0
"""How long an orderly end waits for them."""

_log = EventLog("commits")


class SharedCommits:
    """Runs the commits. `on_failure` is called once."""

    appends_stay = False

    def __init__(
        self, store: SharedStore, environment: Environment, *, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._store = store
        self._environment = environment
        self._on_failure = on_failure
        self._who: Incarnation | None = None
        self._heard_ms = self._silent_ms = 0
        self._last_object = 0
        self._dirty: dict[Partition, None] = {}
        self._cycle: asyncio.Task[None] | None = None
        self._idle: list[asyncio.Future[None]] = []
        self.failed = False
        self.on_lost: Callable[[Partition], None] | None = None
        """Called for a partition whose log is another node's; without it nobody else can have one."""
        self.meter: SyncMeter | None = None

    def begin(self, who: Incarnation, asked_ms: int, silent_ms: int) -> None:
        """Commit as this one from now on; `silent_ms` after the store was asked with success for the last time another
        may."""
        self._who, self._silent_ms = who, silent_ms
        self.heard(asked_ms)

    def heard(self, asked_ms: int) -> None:
        """The store has answered that this node lives; it was asked then, by the monotonic clock."""
        self._heard_ms = asked_ms

    def silence(self) -> str | None:
        silent_ms = self._environment.monotonic_ms() - self._heard_ms
        if self._who is None or silent_ms <= self._silent_ms:
            return None
        return f"the store has not answered for {silent_ms // 1000} s: nothing is committed, and another may serve it"

    def wrote(self, partition: Partition) -> None:
        """`partition` has something to commit."""
        self._dirty[partition] = None
        if self._cycle is None and not self.failed:
            self._cycle = asyncio.get_running_loop().create_task(self._run())

    def publish(self, partition: Partition) -> None:
        """A writer is about to answer: it waits for the commit."""

    async def wait_until_idle(self) -> None:
        """Until nothing waits for a commit any more (shutdown), but not for ever. Raises `StorageFailed`."""
        if self._cycle is not None and not self.failed:
            wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(wait)
            await self._or_give_up(wait)

    async def close(self, partitions: Sequence[Partition]) -> None:
        """Commit what a restart would have to compute. Nobody writes any more. Raises `StorageFailed`."""
        await self._or_give_up(asyncio.ensure_future(self._close(iter(partitions))))

    async def _close(self, rest: Iterator[Partition]) -> None:
        while begun := self._begin(rest, closing=True):
            await self._commit(begun)

    def abandon(self) -> None:
        """Commit nothing more: what waits was acknowledged to nobody."""
        self.failed = True
        if self._cycle is not None:
            self._cycle.cancel()

    async def _or_give_up(self, last: "asyncio.Future[None]") -> None:
        """An orderly end waits only so long for a store that cannot be reached: what it cannot be told was acknowledged
        to nobody."""
        await asyncio.wait([last], timeout=LAST_COMMITS_S)
        if not last.done():
            last.cancel()
            raise StorageFailed("the store cannot be reached, and the broker is to end")
        last.result()

    async def _run(self) -> None:
        try:
            while begun := self._begin(iter(list(self._dirty)), closing=False):
                began = 0 if self.meter is None else self.meter.clock()
                await self._commit(begun)
                if self.meter is not None:
                    self.meter.cycle_ended(began)
        except Exception as error:  # noqa: BLE001  Rule 4
            self._fail(error)
        finally:
            self._cycle = None
            idle, self._idle = self._idle, []
            for wait in idle:
                if not wait.done():
                    wait.set_result(None)

    def _begin(self, rest: Iterator[Partition], *, closing: bool) -> list[tuple[Partition, SharedFlush]]:
        """What the next commit takes; nothing where nobody has anything to commit."""
        begun: list[tuple[Partition, SharedFlush]] = []
        size_bytes = 0
        while size_bytes < COMMIT_BYTES and (partition := next(rest, None)) is not None:
            self._dirty.pop(partition, None)
            log = partition.log
            assert isinstance(log, SharedLog), "in a shared store all logs are"
            if not partition.discarded and (flush := log.begin_flush(closing=closing)) is not None:
                begun.append((partition, flush))
                size_bytes += flush.size_bytes + flush.replaced_bytes
        return begun

    async def _commit(self, begun: Sequence[tuple[Partition, SharedFlush]]) -> None:
        position, changes, batches = 0, list[LogChange](), list[Buffer]()
        for _, flush in begun:
            changes.append(moved(flush.change, position))
            batches += flush.batches
            position += flush.size_bytes + flush.replaced_bytes
        refused = await self._commit_surely(batches, changes)
        turns = self._environment.time_slice()
        for partition, flush in begun:
            partition.log.finish_flush(flush)
            if partition.discarded:
                continue
            if flush.change.log_id not in refused:
                partition.committed_moved()
            elif self.on_lost is None or partition.topic == CLUSTER_METADATA:
                raise StorageFailed(f"{partition.name} is another node's")
            else:
                self.on_lost(partition)
            if turns.spent():
                await turns.wait_for_turn()

    async def _commit_surely(self, batches: Sequence[Buffer], changes: Sequence[LogChange]) -> frozenset[int]:
        """Until it was made; returns what was refused. Raises `StorageFailed`."""
        assert self._who is not None, "only who lives commits"
        who = self._who
        patience = Patience("records wait to be committed")
        try:
            while True:
                self._last_object += 1
                object_id = who.number << 32 | self._last_object
                try:
                    refused = await patience.until_reached(lambda: self._store.commit(who, object_id, batches, changes))  # noqa: B023
                except CommitUnknown:
                    found = await patience.until_reached(lambda: self._store.settle(who, object_id))  # noqa: B023
                    if found is None:
                        continue
                    refused = found
                return refused
        except (Fenced, StoreRefused) as over:
            raise StorageFailed(str(over)) from over

    def _fail(self, error: BaseException) -> None:
        self.failed = True
        if isinstance(error, StorageFailed):
            _log.error("nothing can be committed any more, the broker stops", error=error)
        else:
            _log.bug("a commit failed, the broker stops", error)
        self._on_failure(error)
