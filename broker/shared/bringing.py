"""Bringing what a log has in the store into memory, for who opens the log or wants to read it."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from broker.process.logging import EventLog, Passing
from protocol.records.batch import CorruptRecords
from storage.log import LogDamaged
from storage.shared.replacement import Replacement
from storage.shared.shared_log import SharedLog
from storage.shared.store import (
    ObjectLost,
    ObjectMissing,
    OwnedLog,
    SharedStore,
    StoredRun,
    StoreRefused,
    StoreUnreachable,
)
from storage.stretch import STRETCH_BYTES, Stretch, stretch_of

RUNS_AT_ONCE = 500

_log = EventLog("store")
Own = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


async def tail_of(
    store: SharedStore, owned: OwnedLog, offset: int, name: str, *, enough_bytes: int | None = None
) -> Stretch:
    """All batches of a log from an offset on, or enough of them, up to where it ended when it was looked at: what
    another node has committed since is not known to outlive a failover of the store. Raises `StoreUnreachable`,
    `LogDamaged`."""
    tail = Stretch()
    while offset < owned.next_offset and (enough_bytes is None or tail.size_bytes < enough_bytes):
        try:
            part = await _stretch_at(store, owned.log_id, offset, name)
        except ObjectMissing as missing:  # Nobody but the owner takes anything away, and that is who asks.
            raise LogDamaged(name, None, offset, f"{missing} is not in the store") from missing
        for batch, placed in zip(part.batches, part.placed, strict=True):
            if offset <= placed.last_offset < owned.next_offset:
                tail.append(batch, placed)
        offset = part.placed[-1].last_offset + 1
    return tail


async def _stretch_at(store: SharedStore, log_id: int, offset: int, name: str) -> Stretch:
    """What lies at an offset of a log, and some of what follows. Raises `StoreUnreachable`, `LogDamaged`,
    `ObjectMissing`."""
    runs = await store.runs(log_id, offset, RUNS_AT_ONCE)
    wanted: list[StoredRun] = []
    size_bytes, expected = 0, offset
    for one in runs:
        if one.run.base_offset > expected or (wanted and size_bytes + one.run.size_bytes > STRETCH_BYTES):
            break
        wanted.append(one)
        size_bytes += one.run.size_bytes
        expected = one.run.last_offset + 1
    if not wanted:
        raise LogDamaged(name, None, offset, "the store has no run there") from ObjectMissing(f"a run at {offset}")
    try:
        pieces = await store.read(wanted)
    except ObjectLost as lost:
        raise LogDamaged(name, None, offset, str(lost), expected) from lost
    try:
        stretch = stretch_of(pieces)
    except CorruptRecords as error:
        damaged = next(one for one, piece in zip(wanted, pieces, strict=True) if _is_damaged(piece))
        reason = f"{error} in {await store.name_of(damaged.object_id)}"
        raise LogDamaged(name, None, offset, reason, expected) from error
    if not len(stretch) or stretch.placed[-1].last_offset + 1 != expected:
        reason = f"a run is not what was committed in {await store.name_of(wanted[-1].object_id)}"
        raise LogDamaged(name, None, offset, reason, expected)
    return stretch


def _is_damaged(piece: bytes) -> bool:
    try:
        stretch_of([piece])
    except CorruptRecords:
        return True
    return False


class LogSource:
    """`storage.shared.shared_log.Source` of one log, of this node's or of another's, who may take away what it held a
    moment ago."""

    def __init__(self, log: SharedLog, store: SharedStore, own: Own, *, of_another: bool = False) -> None:
        self._log = log
        self._of_another = of_another
        self._store = store
        self._own = own
        self._under_way: dict[int, asyncio.Future[None]] = {}

    def bring(self, offset: int) -> "Brought":
        """See `Source`. A failure is that of who waits; there may be nobody."""
        future = self._under_way.get(offset)
        if future is None:
            future = self._under_way[offset] = asyncio.get_running_loop().create_future()
            self._own(self._bring(offset, future))
        return Brought(future)

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
        try:
            log.arrived(offset, await _stretch_at(self._store, log.owned.log_id, offset, log.name))
        except LogDamaged as damaged:
            if self._of_another and isinstance(damaged.__cause__, ObjectMissing):
                self._failed(offset, future, damaged)
            else:
                log.arrived(offset, damaged)
        except (StoreUnreachable, StoreRefused, ObjectMissing) as error:
            self._failed(offset, future, error)
        finally:
            del self._under_way[offset]
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
