"""Group commit: one cycle of syncs serves every partition written meanwhile.

Rule 1. A cycle syncs data partitions and `__consumer_offsets` in parallel, then `__transaction_state`. What a PREPARE
promises does not rest on that: it is appended when all of it is durable (`broker.coordination.promises`).
Rule 2. A partition written while a cycle runs is in the next one. A cycle runs whenever something is dirty.
Rule 3. A partition that is not to be durable (page-cache mode) counts as committed after one turn of the loop, which
gathers a burst; it is synced beside that only when its log wants a checkpoint, so that recovery stays short. Thousands
that were written at once are synced and published some at a time, with a turn for others in between.
Rule 4. Where one sync serves all that is dirty (`storage.write_ahead`), a cycle has one part: what it writes is durable
together, or not at all. What that needs beside, now and then, is done on another thread.
Rule 5. A sync that fails ends the process; nothing that waited for it is ever acknowledged. So does a bug in a cycle:
what it had begun can be neither ended nor begun again, and a node that acknowledges nothing any more is of no use.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from broker.disk.sync_meter import SyncMeter
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.time_slice import TimeSlice
from protocol.internal_topics import TRANSACTION_STATE
from storage.log import Flush, Log, StorageFailed
from storage.write_ahead.write_ahead_log import WriteAheadLog

PORTION = 128
"""Partitions whose syncs are under way together: many more than there are threads for them."""
SHARES = 8
"""Into how many pieces of work they are put."""

_log = EventLog("group_commit")


class Committed(Protocol):
    """A partition as a cycle sees it."""

    @property
    def topic(self) -> str: ...

    @property
    def log(self) -> Log: ...

    @property
    def is_durable(self) -> bool:
        """Whether an append must be on the disk before it counts as committed."""

    @property
    def discarded(self) -> bool:
        """Whether its topic is deleted: its files belong to no topic any more."""

    def committed_moved(self) -> None: ...


class GroupCommit:
    """Runs the cycles. `on_failure` is called once, with what the disk said."""

    appends_stay = True

    def __init__(self, environment: Environment, *, on_failure: Callable[[BaseException], None]) -> None:
        self._environment = environment
        self._on_failure = on_failure
        self._dirty: dict[Committed, None] = {}
        self._cycle: asyncio.Task[None] | None = None
        self._turn: asyncio.Handle | None = None
        self._beginning = False
        self._idle: list[asyncio.Future[None]] = []
        self.failed = False
        self._beside: asyncio.Future[None] | None = None
        self.ahead: WriteAheadLog | None = None
        self.meter: SyncMeter | None = None
        """Where cycles are counted, in a broker that is watched."""

    def silence(self) -> str | None:
        """A disk answers, or fails."""
        return None

    def held_up(self) -> str | None:
        """There is nothing else to be waited for."""
        return None

    def wrote(self, partition: Committed) -> None:
        """`partition` has grown; it will be committed in the next cycle."""
        self._dirty[partition] = None
        if self._turn is None and self._cycle is None and not self.failed:
            self._turn = asyncio.get_running_loop().call_soon(self._begin)

    def publish(self, partition: Committed) -> None:
        """A writer is about to answer: commit at once what needs no sync, which saves it a wait."""
        if partition in self._dirty and not partition.is_durable:
            if not partition.log.checkpoint_wanted:
                del self._dirty[partition]  # before the next line: its callbacks may write again
            partition.committed_moved()
            if self._turn is not None and not (self._dirty or self._idle or self._beginning):
                self._turn.cancel()  # it would find nothing to do
                self._turn = None

    async def wait_until_idle(self) -> None:
        """Until nothing is dirty any more (shutdown)."""
        if not self.failed and (self._dirty or self._cycle is not None or self._turn is not None):
            wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(wait)
            await wait

    async def end(self) -> None:
        """An orderly end, when every log is closed. Raises `OSError`."""
        if self._beside is not None:
            await self._beside
        if self.ahead is not None:
            await self._environment.run_blocking(self.ahead.close)

    def _begin(self) -> None:
        dirty, self._dirty = self._dirty, {}
        self._beginning = True  # callbacks of a commit may write, and must not begin a second cycle
        self._begin_with(dirty, iter(list(dirty)), self._environment.time_slice())

    def _begin_with(self, dirty: dict[Committed, None], rest: Iterator[Committed], turns: TimeSlice) -> None:
        """`rest` are those of the dirty that were not looked at yet."""
        is_whole = True
        try:
            is_whole = self._publish_at_once(dirty, rest, turns)
        except Exception as error:  # noqa: BLE001  Rule 5
            self._fail(error)
        if not is_whole:
            turns.call_in_turn(lambda: self._begin_with(dirty, rest, turns))
            return
        self._turn, self._beginning = None, False
        if self.failed:
            return
        if dirty:
            self._cycle = asyncio.get_running_loop().create_task(self._run(list(dirty)))
        else:
            self._go_on()

    def _publish_at_once(self, dirty: dict[Committed, None], rest: Iterator[Committed], turns: TimeSlice) -> bool:
        """Take out what needs no sync: it is committed now. False where the time for that was over first."""
        for partition in rest:
            if partition.discarded:
                del dirty[partition]
            elif not partition.is_durable:
                partition.committed_moved()
                if not partition.log.checkpoint_wanted:
                    del dirty[partition]
            if turns.spent():
                return False
        return True

    async def _run(self, dirty: Sequence[Committed]) -> None:
        began = 0 if self.meter is None else self.meter.clock()
        try:
            await self._sync_in_order(dirty)
        except Exception as error:  # noqa: BLE001  Rule 5
            self._fail(error)
            return
        finally:
            self._cycle = None
        if self.meter is not None:
            self.meter.cycle_ended(began)
        if self.ahead is not None and self._beside is None and (work := self.ahead.work) is not None:
            self._beside = self._environment.run_beside(work)
            self._beside.add_done_callback(self._beside_ended)
        self._go_on()

    def _beside_ended(self, work: "asyncio.Future[None]") -> None:
        self._beside = None
        if not work.cancelled() and (error := work.exception()) is not None:
            self._fail(error)

    async def _sync_in_order(self, dirty: Sequence[Committed]) -> None:
        data = [partition for partition in dirty if partition.topic != TRANSACTION_STATE]
        promises = [partition for partition in dirty if partition.topic == TRANSACTION_STATE]
        if all(partition.log.shares_commits for partition in dirty):
            await self._sync([*data, *promises])
            return
        await self._sync(data)
        if promises or any(partition.topic == TRANSACTION_STATE for partition in self._dirty):
            await self._sync(self._with_what_came_meanwhile(promises))

    def _with_what_came_meanwhile(self, promises: Sequence[Committed]) -> list[Committed]:
        """The sync of `__transaction_state` takes in records appended since the cycle began: so whatever they may
        promise is synced beside them, and published before them."""
        late, self._dirty = self._dirty, {}
        data = [partition for partition in late if partition.topic != TRANSACTION_STATE]
        more = [partition for partition in late if partition.topic == TRANSACTION_STATE and partition not in promises]
        return [*data, *promises, *more]

    async def _sync(self, chosen: Sequence[Committed]) -> None:
        rest = iter(chosen)
        while begun := self._begin_portion(rest):
            await self._run_all([flush for _, flush in begun if flush is not None])
            turns = self._environment.time_slice()
            for partition, flush in begun:
                if flush is not None:
                    partition.log.finish_flush(flush)
                if not partition.discarded:
                    partition.committed_moved()
                if turns.spent():
                    await turns.wait_for_turn()

    def _begin_portion(self, rest: Iterator[Committed]) -> list[tuple[Committed, Flush | None]]:
        """Begin as many flushes as may be under way together and as this turn has time for. None are left where there
        is nothing."""
        turns = self._environment.time_slice()
        begun: list[tuple[Committed, Flush | None]] = []
        for partition in rest:
            if not partition.discarded:
                begun.append((partition, partition.log.begin_flush()))
                if len(begun) == PORTION or turns.spent():
                    break
        return begun

    async def _run_all(self, flushes: Sequence[Flush]) -> None:
        """Each thread gets its share at once: who comes back for every file wakes the loop as often."""
        run_each = _run_each if self.meter is None else self.meter.run_each
        together = [flush for flush in flushes if flush.shares_commits]
        alone = [flush for flush in flushes if not flush.shares_commits]
        shares = [partial(run_each, alone[first::SHARES]) for first in range(min(SHARES, len(alone)))]
        if together:
            shares.append(partial(run_each, together))
        if len(shares) == 1:
            await self._environment.run_blocking(shares[0])
        elif shares:
            runs = [self._environment.run_blocking(share) for share in shares]
            await asyncio.wait(runs)
            for run in runs:
                run.result()

    def _go_on(self) -> None:
        if self._dirty:
            self._turn = asyncio.get_running_loop().call_soon(self._begin)
            return
        idle, self._idle = self._idle, []
        for wait in idle:
            if not wait.done():
                wait.set_result(None)

    def _fail(self, error: BaseException) -> None:
        self.failed = True
        if isinstance(error, OSError | StorageFailed):
            _log.error("sync failed, the broker stops", error=error)
        else:
            _log.bug("a cycle of syncs failed, the broker stops", error)
        for wait in self._idle:
            if not wait.done():
                wait.set_result(None)
        self._on_failure(error)


def _run_each(flushes: Sequence[Flush]) -> None:
    for flush in flushes:
        flush.run()
