"""Bringing what a log has in the store into memory, for who opens the log or wants to read it."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from broker.process.logging import EventLog, Passing
from broker.shared.reading.ahead import AheadOfLog, ReadingAhead
from broker.shared.reading.stretches import NO_EPOCH, RUNS_AT_ONCE, first_stretch, known_of, stretch_in
from storage.log import LogDamaged
from storage.segments.stamping import leader_epoch_at
from storage.shared.checked_run import Known
from storage.shared.replacement import Replacement
from storage.shared.shared_log import SharedLog
from storage.shared.store import ObjectMissing, OwnedLog, SharedStore, StoredRun, StoreRefused, StoreUnreachable
from storage.stretch import STRETCH_BYTES, Stretch

_log = EventLog("store")
Own = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


async def tail_of(
    store: SharedStore, owned: OwnedLog, offset: int, name: str, *, enough_bytes: int | None = None
) -> Stretch:
    """All batches of a log from an offset on, or enough of them, up to where it ended when it was looked at: what
    another node has committed since is not known to outlive a failover of the store. Raises `StoreUnreachable`,
    `LogDamaged`."""
    tail, known, epoch = Stretch(), Known(owned.next_offset, owned.owner_epoch), NO_EPOCH
    while offset < owned.next_offset and (enough_bytes is None or tail.size_bytes < enough_bytes):
        try:
            part = await _stretch_at(store, owned.log_id, offset, name, known, epoch)
        except ObjectMissing as missing:  # Nobody but the owner takes anything away, and that is who asks.
            raise LogDamaged(name, None, offset, f"{missing} is not in the store") from missing
        for batch, placed in zip(part.batches, part.placed, strict=True):
            if offset <= placed.last_offset < owned.next_offset:
                tail.append(batch, placed)
        offset, epoch = part.placed[-1].last_offset + 1, leader_epoch_at(part.batches[-1])
    return tail


async def _stretch_at(
    store: SharedStore, log_id: int, offset: int, name: str, known: Known, after_epoch: int
) -> Stretch:
    """What lies at an offset of a log, and some of what follows. Raises what `stretch_in` does."""
    wanted, _ = await _runs_at(store, log_id, offset, name, STRETCH_BYTES)
    return await stretch_in(store, wanted, offset, name, known, after_epoch=after_epoch)


async def _runs_at(
    store: SharedStore, log_id: int, offset: int, name: str, most_bytes: int
) -> tuple[list[StoredRun], list[StoredRun]]:
    """Those of a stretch, and those that are known to follow. Raises `StoreUnreachable`, `LogDamaged`."""
    runs = await store.runs(log_id, offset, RUNS_AT_ONCE)
    wanted = first_stretch(runs, offset, most_bytes)
    if not wanted:
        raise LogDamaged(name, None, offset, "the store has no run there") from ObjectMissing(f"a run at {offset}")
    return wanted, runs[len(wanted) :]


class LogSource:
    """`storage.shared.source.Source` of one log, of this node's or of another's, who may take away what it held a
    moment ago."""

    def __init__(self, log: SharedLog, node: ReadingAhead, *, of_another: bool = False) -> None:
        self._log = log
        self._of_another = of_another
        self._store = node.store
        self._own = node.own
        self._turns = node.turns
        self._most_bytes = node.stretch_bytes
        self._ahead = AheadOfLog(node, log)
        self._under_way: dict[int, asyncio.Future[None]] = {}
        self._outdated: set[int] = set()
        """What of that was written anew meanwhile."""

    def bring(self, offset: int) -> "Brought":
        """See `Source`. A failure is that of who waits; there may be nobody."""
        future = self._under_way.get(offset)
        if future is None and (stretch := self._ahead.take(offset)) is not None:
            self._log.arrived(offset, stretch)
            future = asyncio.get_running_loop().create_future()
            future.set_result(None)
        if future is None:
            future = self._ahead.coming(offset)
        if future is None:
            future = self._under_way[offset] = asyncio.get_running_loop().create_future()
            self._own(self._bring(offset, future))
        return Brought(future)

    def forget_before(self, offset: int) -> None:
        """See `Source`."""
        self._ahead.forget_before(offset)
        self._outdated.update(one for one in self._under_way if one < offset)

    def close(self) -> None:
        """See `Source`."""
        self._ahead.close()

    def put(self, replacement: Replacement) -> "Brought":
        """See `Source`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        replacement.done = done
        self._log.put(replacement)
        return Brought(future)

    async def _bring(self, offset: int, future: "asyncio.Future[None]") -> None:
        log = self._log
        known = known_of(log)
        try:
            wanted, rest = await _runs_at(self._store, log.owned.log_id, offset, log.name, self._most_bytes)
            stretch = await stretch_in(self._store, wanted, offset, log.name, known, turns=self._turns)
            if offset not in self._outdated and not log.closed:
                log.arrived(offset, stretch)
                ends = stretch.placed[-1].last_offset + 1
                self._ahead.brought(offset, ends, rest if ends > wanted[-1].run.last_offset else ())
        except LogDamaged as damaged:
            if self._of_another and isinstance(damaged.__cause__, ObjectMissing):
                self._failed(offset, future, damaged)
            else:
                log.arrived(offset, damaged)
        except (StoreUnreachable, StoreRefused, ObjectMissing) as error:
            self._failed(offset, future, error)
        finally:
            del self._under_way[offset]
            self._outdated.discard(offset)
            if not future.done():
                future.set_result(None)

    def _failed(self, offset: int, future: "asyncio.Future[None]", error: Exception) -> None:
        # Readers ask again and again, each where it stands: that is one line for a log, and a count.
        told = {"offset": Passing(str(offset)), "reason": Passing(str(error))}
        _log.warning("records cannot be brought from the store", log=self._log.name, **told)
        future.set_exception(OSError(str(error)))
        future.exception()  # Looked at: there may be nobody who waits.


class Brought:
    """Who awaits it may be cancelled: the others wait on."""

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(self._future).__await__()
