"""A shared store in memory: that of several nodes in one process, and the executable specification that the other
engines are compared with.

Every method happens in one moment of the loop. It is handed between the nodes of one process, and outlives each.
"""

import asyncio
import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from protocol.schema import Buffer
from storage.shared.store import (
    Fenced,
    FoundLog,
    Incarnation,
    LogChange,
    Member,
    NotOwned,
    ObjectLost,
    ObjectMissing,
    OwnedLog,
    Run,
    StoredRun,
    StoreRefused,
    Upload,
)


@dataclass(slots=True)
class _Log:
    log_id: int
    owner: int
    owner_epoch: int
    first_offset: int = 0
    start_offset: int = 0
    next_offset: int = 0
    kept: bytes = b""
    runs: list[StoredRun] = field(default_factory=list[StoredRun])

    def found(self) -> OwnedLog:
        return OwnedLog(
            self.log_id, self.owner_epoch, self.first_offset, self.start_offset, self.next_offset, self.kept
        )


@dataclass(slots=True)
class _Object:
    data: bytes
    live_runs: int
    refused: frozenset[int]
    dead_since_ms: int | None = None


class StoreInMemory:
    """See `storage.shared.store.SharedStore` for the contract of every method."""

    def __init__(self, now_ms: Callable[[], int], *, keeps_apart: bool = False) -> None:
        self._now_ms = now_ms
        self.keeps_apart = keeps_apart
        self._cluster_id: str | None = None
        self._last_number = 0
        self._living: dict[int, Incarnation] = {}
        """By node."""
        self._begun: dict[int, Incarnation] = {}
        """All that ever were, by number."""
        self._heard_ms: dict[int, int] = {}
        self._about: dict[int, bytes] = {}
        self._logs: dict[tuple[bytes, int], _Log] = {}
        self._by_id: dict[int, _Log] = {}
        self._last_log_id = 0
        self._objects: dict[int, _Object | None] = {}
        """None: its commit was given up, and can never be made."""
        self._uploads: dict[int, bytes] = {}
        """Not named by a commit yet."""
        self._waiting: list[asyncio.Future[None]] = []
        """To be told something."""

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """There is nothing to give up."""

    async def cluster_id(self, wanted: str | None, drawn: str) -> str:
        if self._cluster_id is None:
            self._cluster_id = wanted or drawn
        if wanted not in (None, self._cluster_id):
            raise StoreRefused(f"the store is of cluster {self._cluster_id}, not of {wanted}")
        return self._cluster_id

    # -- nodes -----------------------------------------------------------------------------------------------

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        self._living.pop(node_id, None)
        self._last_number += 1
        who = Incarnation(node_id, self._last_number)
        self._living[node_id] = self._begun[who.number] = who
        self._heard_ms[node_id] = self._now_ms()
        self._about[node_id] = about
        return who

    async def tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def wait_until_told(self, wait_s: float) -> None:
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        try:
            await asyncio.wait([told], timeout=wait_s)
        finally:
            if told in self._waiting:
                self._waiting.remove(told)

    async def members(self) -> list[Member]:
        now_ms = self._now_ms()
        return [
            Member(who, now_ms - self._heard_ms[node_id], self._about[node_id])
            for node_id, who in sorted(self._living.items())
        ]

    async def fence(self, who: Incarnation, other: Incarnation, silent_ms: int) -> bool:
        assert who != other, "who ends its own life leaves"
        self._check_lives(who)
        if self._living.get(other.node_id) != other:
            return self._begun.get(other.number) == other
        if self._now_ms() - self._heard_ms[other.node_id] < silent_ms:
            return False
        del self._living[other.node_id]
        return True

    async def heartbeat(self, who: Incarnation) -> None:
        self._check_lives(who)
        self._heard_ms[who.node_id] = self._now_ms()

    async def leave(self, who: Incarnation) -> None:
        if self._living.get(who.node_id) == who:
            del self._living[who.node_id]

    def _check_lives(self, who: Incarnation) -> None:
        if self._living.get(who.node_id) != who:
            raise Fenced(f"incarnation {who.number} of node {who.node_id} is over")

    # -- logs ------------------------------------------------------------------------------------------------

    async def claim(self, who: Incarnation, topic_id: bytes, index: int, epoch: int | None) -> OwnedLog:
        self._check_lives(who)
        log = self._logs.get((topic_id, index))
        if log is None:
            self._last_log_id += 1
            log = _Log(self._last_log_id, who.number, 0 if epoch is None else epoch)
            self._logs[topic_id, index] = self._by_id[log.log_id] = log
        elif epoch is None:
            log.owner, log.owner_epoch = who.number, log.owner_epoch + 1
        elif epoch > log.owner_epoch:
            log.owner, log.owner_epoch = who.number, epoch
        elif (log.owner, log.owner_epoch) != (who.number, epoch):
            raise NotOwned(f"log {log.log_id} has epoch {log.owner_epoch}, not {epoch}")
        return log.found()

    async def look(self, who: Incarnation, topic_id: bytes, index: int, *, with_kept: bool) -> FoundLog | None:
        self._check_lives(who)
        log = self._logs.get((topic_id, index))
        if log is None:
            return None
        found = log.found()
        return FoundLog(self._begun[log.owner], found if with_kept else replace(found, kept=b""))

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        assert upload_id >> 32 == who.number, "an upload is called after who makes it"
        assert upload_id not in self._uploads, "an upload is made once"
        self._uploads[upload_id] = b"".join(data)
        return Upload(upload_id, len(self._uploads[upload_id]))

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        assert object_id >> 32 == who.number, "an object is called after who makes it"
        self._check_lives(who)
        assert object_id not in self._objects, "an object is made once"
        refused = frozenset(change.log_id for change in changes if not self._is_taken(who, change))
        taken = [change for change in changes if change.log_id not in refused]
        live_runs = sum(len(change.runs) + len(change.replacements) for change in taken)
        if isinstance(data, Upload):
            assert data.upload_id in self._uploads, "an upload is named once"
        whole = self._uploads.pop(data.upload_id) if isinstance(data, Upload) else b"".join(data)
        self._objects[object_id] = _Object(whole, live_runs, refused, None if live_runs else self._now_ms())
        for change in taken:
            self._change(object_id, change)
        return refused

    def knows(self, object_id: int) -> bool:
        """Whether it was made or given up."""
        return object_id in self._objects

    def _is_taken(self, who: Incarnation, change: LogChange) -> bool:
        log = self._by_id.get(change.log_id)
        if log is None:
            return False
        return (log.owner, log.owner_epoch, log.next_offset) == (who.number, change.owner_epoch, change.base_offset)

    def _change(self, object_id: int, change: LogChange) -> None:
        log = self._by_id[change.log_id]
        for run in change.runs:
            assert run.base_offset == log.next_offset, "offsets have no gaps"
            log.runs.append(StoredRun(object_id, run))
            log.next_offset = run.last_offset + 1
        if change.replaced is not None:
            self._replace(object_id, log, change.replaced, change.replacements)
        if change.kept is not None:
            log.kept = change.kept
        if change.start_offset is not None:
            log.start_offset = change.start_offset
        if change.first_offset is not None:
            log.first_offset = change.first_offset
            self._drop([one for one in log.runs if one.run.last_offset < change.first_offset])
            log.runs = [one for one in log.runs if one.run.last_offset >= change.first_offset]
        assert 0 <= log.first_offset <= log.start_offset <= log.next_offset, "a log begins within itself"

    def _replace(self, object_id: int, log: _Log, replaced: tuple[int, int], replacements: Sequence[Run]) -> None:
        first, last = replaced
        gone = [one for one in log.runs if first <= one.run.last_offset <= last]
        assert gone and gone[0].run.base_offset == first and gone[-1].run.last_offset == last, "whole runs go"
        assert replacements[0].base_offset == first and replacements[-1].last_offset == last, "nothing is left out"
        for before, after in itertools.pairwise(replacements):
            assert after.base_offset == before.last_offset + 1, "offsets have no gaps"
        begin = log.runs.index(gone[0])
        log.runs[begin : begin + len(gone)] = [StoredRun(object_id, run) for run in replacements]
        self._drop(gone)

    def _drop(self, runs: Sequence[StoredRun]) -> None:
        for one in runs:
            held = self._objects[one.object_id]
            assert held is not None, "what was given up holds no runs"
            held.live_runs -= 1
            held.dead_since_ms = None if held.live_runs else self._now_ms()

    async def settle(self, who: Incarnation, object_id: int) -> frozenset[int] | None:
        assert object_id >> 32 == who.number, "everybody settles his own"
        self._check_lives(who)
        held = self._objects.setdefault(object_id, None)
        return None if held is None else held.refused

    async def forget(self, who: Incarnation, topic_id: bytes) -> None:
        self._check_lives(who)
        for place in [place for place in self._logs if place[0] == topic_id]:
            log = self._logs.pop(place)
            del self._by_id[log.log_id]
            self._drop(log.runs)

    # -- reading ---------------------------------------------------------------------------------------------

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        log = self._by_id.get(log_id)
        if log is None:
            return []
        begin = bisect_left(log.runs, offset, key=lambda one: one.run.last_offset)
        return log.runs[begin : begin + limit]

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        found: list[bytes] = []
        for one in runs:
            held = self._objects.get(one.object_id)
            if held is None:
                raise ObjectMissing(f"object {one.object_id}")
            end = one.run.position + one.run.size_bytes
            if end > len(held.data):
                raise ObjectLost(f"object {one.object_id} is shorter than it was")
            found.append(held.data[one.run.position : end])
        return found

    async def name_of(self, object_id: int) -> str:
        return f"object {object_id}"

    async def topic_ids(self) -> list[bytes]:
        return sorted({topic_id for topic_id, _ in self._logs})

    async def collect(self, older_ms: int, limit: int) -> int:
        due_ms = self._now_ms() - older_ms
        made = sorted(object_id for object_id, held in self._objects.items() if held is not None)
        newest = {object_id >> 32: object_id for object_id in made}
        staying = {newest.get(who.number) for who in self._living.values()}
        dead = [
            object_id
            for object_id in made
            if (held := self._objects[object_id]) is not None
            and held.dead_since_ms is not None
            and held.dead_since_ms <= due_ms
            and object_id not in staying
        ][:limit]
        for object_id in dead:
            del self._objects[object_id]
        return len(dead)
