"""Commits: one of the store serves every partition that was written meanwhile.

Rule 1. Commits of a node happen one after the other. One is a whole. What a PREPARE promises was acknowledged, and so
        committed, before anybody asked for it; where bytes are not kept apart, all goes in the order of the appends.
Rule 2. A commit of which nobody knows whether it was made is settled before anything else happens. One that was not
        made is tried again, with the same records at the same offsets: nobody was told anything of them.
Rule 3. While the store cannot be reached, writers wait; nothing is acknowledged.
Rule 4. Where the store keeps bytes apart, those of clients' topics are brought there before their commit, in a lane of
        their own. Those of coordinators and of the metadata go with the commit, and never wait for that.
Rule 5. A node that is fenced ends: nothing that waited is acknowledged. So does one with a bug in a commit. A log that
        is another node's by now is given up alone, but for that of the metadata: who does not own that any more was
        fenced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from broker.disk.sync_meter import SyncMeter
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.lanes import Begun, Lane
from broker.shared.patience import Patience
from broker.shared.uploads import Uploads
from protocol.internal_topics import CLUSTER_METADATA, OF_COORDINATORS
from protocol.schema import Buffer
from storage.log import StorageFailed
from storage.shared.read_memory import ReadMemory
from storage.shared.store import (
    CommitUnknown,
    Fenced,
    Incarnation,
    LogChange,
    SharedStore,
    StoreRefused,
    Upload,
    moved,
)

COMMIT_BYTES = 1 << 20
"""After which the rest waits for the next one; a single log is not divided."""
UPLOAD_BYTES = 4 << 20
"""The same for what is brought before its commit."""
UPLOADS_AT_ONCE = 4

LAST_COMMITS_S = 10.0
"""How long an orderly end waits for them."""

_log = EventLog("commits")


class SharedCommits:
    """Runs the commits. `on_failure` is called once."""

    appends_stay = False

    def __init__(
        self,
        store: SharedStore,
        environment: Environment,
        *,
        on_failure: Callable[[BaseException], None],
        linger_ms: int = 0,
    ) -> None:
        """`linger_ms` is for what is brought apart."""
        self._store = store
        self._environment = environment
        self._on_failure = on_failure
        self._who: Incarnation | None = None
        self._memory: ReadMemory | None = None
        self._heard_ms = self._silent_ms = 0
        self._last_id = 0
        """Of an object, or of an upload."""
        self._direct = Lane(COMMIT_BYTES, 1, partial(self._run, self._commit), self._ended)
        self._apart = Lane(
            UPLOAD_BYTES,
            UPLOADS_AT_ONCE,
            partial(self._run, self._commit_apart),
            self._ended,
            linger_s=linger_ms / 1000,
            waiting_bytes=lambda: self.pending_bytes,
        )
        self._lanes = (self._direct, self._apart)
        self._turn = asyncio.Lock()
        """Rule 1."""
        self.uploads = Uploads(store, environment, self._next_id)
        self._idle: list[asyncio.Future[None]] = []
        self.failed = False
        self.on_lost: Callable[[Partition], None] | None = None
        """Called for a partition whose log is another node's; without it nobody else can have one."""
        self.meter: SyncMeter | None = None

    def begin(self, who: Incarnation, memory: ReadMemory, asked_ms: int, silent_ms: int) -> None:
        """Commit as this one from now on what is in memory; `silent_ms` after the store was asked with success for the
        last time another may."""
        self._who, self._memory, self._silent_ms = who, memory, silent_ms
        self.heard(asked_ms)

    def heard(self, asked_ms: int) -> None:
        """The store has answered that this node lives; it was asked then, by the monotonic clock."""
        self._heard_ms = asked_ms

    @property
    def silent_ms(self) -> int:
        """How long ago the store was asked with success last."""
        return self._environment.monotonic_ms() - self._heard_ms

    def silence(self) -> str | None:
        silent_ms = self.silent_ms
        if self._who is None or silent_ms <= self._silent_ms:
            return None
        return f"the store has not answered for {silent_ms // 1000} s: nothing is committed, and another may serve it"

    def held_up(self) -> str | None:
        return self.uploads.held_up()

    @property
    def pending_bytes(self) -> int:
        """Appended and not committed yet."""
        return 0 if self._memory is None else self._memory.pending_bytes

    @property
    def read_bytes(self) -> tuple[int, int]:
        """What is in memory to be read, and what is ahead of readers."""
        return (0, 0) if self._memory is None else (self._memory.held_bytes, self._memory.ahead_bytes)

    @property
    def keeps_apart(self) -> bool:
        """Whether bytes of clients' topics are brought before their commit."""
        return self._store.keeps_apart

    def wrote(self, partition: Partition) -> None:
        """`partition` has something to commit."""
        if not self.failed:
            self._lane_of(partition).wrote(partition)

    def _lane_of(self, partition: Partition) -> Lane:
        is_apart = self._store.keeps_apart and partition.topic not in OF_COORDINATORS
        return self._apart if is_apart else self._direct

    def publish(self, partition: Partition) -> None:
        """A writer is about to answer: it waits for the commit."""

    async def wait_until_idle(self) -> None:
        """Until nothing waits for a commit any more (shutdown), but not for ever. Raises `StorageFailed`."""
        if self._is_busy() and not self.failed:
            wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(wait)
            await self._or_give_up(wait)

    async def end(self) -> None:
        """What is in a store is there."""

    def _is_busy(self) -> bool:
        return any(lane.cycles for lane in self._lanes)

    async def close(self, partitions: Sequence[Partition]) -> None:
        """Commit what a restart would have to compute. Nobody writes any more. Raises `StorageFailed`."""
        await self._or_give_up(asyncio.ensure_future(self._close(partitions)))

    async def _close(self, partitions: Sequence[Partition]) -> None:
        for lane, work in ((self._direct, self._commit), (self._apart, self._commit_apart)):
            rest = iter([one for one in partitions if self._lane_of(one) is lane])
            while begun := lane.begin(rest, closing=True):
                await work(begun)

    def abandon(self) -> None:
        """Commit nothing more: what waits was acknowledged to nobody."""
        self.failed = True
        for lane in self._lanes:
            lane.abandon()

    async def _or_give_up(self, last: "asyncio.Future[None]") -> None:
        """An orderly end waits only so long for a store that cannot be reached: what it cannot be told was acknowledged
        to nobody."""
        await asyncio.wait([last], timeout=LAST_COMMITS_S)
        if not last.done():
            last.cancel()
            raise StorageFailed("the store cannot be reached, and the broker is to end")
        last.result()

    async def _run(self, commit: Callable[[Begun], Awaitable[None]], begun: Begun) -> None:
        began = 0 if self.meter is None else self.meter.clock()
        await commit(begun)
        if self.meter is not None:
            self.meter.cycle_ended(began)

    def _ended(self, failed: Exception | None) -> None:
        if failed is not None:
            self._fail(failed)
        if not self._is_busy():
            idle, self._idle = self._idle, []
            for wait in idle:
                if not wait.done():
                    wait.set_result(None)

    async def _commit(self, begun: Begun) -> None:
        batches, changes = _gathered(begun)
        await self._finish(begun, await self._commit_surely(batches, changes))

    async def _commit_apart(self, begun: Begun) -> None:
        batches, changes = _gathered(begun)
        assert self._who is not None, "only who lives commits"
        data = await self.uploads.bring(self._who, batches) if batches else batches
        await self._finish(begun, await self._commit_surely(data, changes))

    async def _finish(self, begun: Begun, refused: frozenset[int]) -> None:
        turns = self._environment.time_slice()
        for partition, flush in begun:
            partition.log.finish_flush(flush)
            if partition.discarded:
                continue
            if flush.change.log_id not in refused:
                partition.committed_moved()
                if flush.change.start_offset is not None:
                    partition.became_readable()  # Or is not any more: who has deleted records waits for that.
            elif self.on_lost is None or partition.topic == CLUSTER_METADATA:
                raise StorageFailed(f"{partition.name} is another node's")
            else:
                self.on_lost(partition)
            if turns.spent():
                await turns.wait_for_turn()

    def _next_id(self, who: Incarnation) -> int:
        self._last_id += 1
        return who.number << 32 | self._last_id

    async def _commit_surely(self, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]) -> frozenset[int]:
        """Until it was made; returns what was refused. Raises `StorageFailed`."""
        assert self._who is not None, "only who lives commits"
        who = self._who
        patience = Patience("records wait to be committed")
        try:
            async with self._turn:
                while True:
                    object_id = self._next_id(who)
                    try:
                        return await patience.until_reached(lambda: self._store.commit(who, object_id, data, changes))  # noqa: B023
                    except CommitUnknown:
                        found = await patience.until_reached(lambda: self._store.settle(who, object_id))  # noqa: B023
                        if found is not None:
                            return found
        except (Fenced, StoreRefused) as over:
            raise StorageFailed(str(over)) from over

    def _fail(self, error: BaseException) -> None:
        """Rule 5."""
        if self.failed:
            return
        self.failed = True
        if isinstance(error, StorageFailed):
            _log.error("nothing can be committed any more, the broker stops", error=error)
        else:
            _log.bug("a commit failed, the broker stops", error)
        self._on_failure(error)


def _gathered(begun: Begun) -> tuple[list[Buffer], list[LogChange]]:
    """The bytes of all, one behind the other, and what is to become of their logs."""
    position, changes, batches = 0, list[LogChange](), list[Buffer]()
    for _, flush in begun:
        changes.append(moved(flush.change, position))
        batches += flush.batches
        position += flush.size_bytes + flush.replaced_bytes
    return batches, changes
