"""Runs over a shared store: the same clients and the same checkers, and a store that is asked over a bad line.

What is asked arrives late or never, what is answered may be lost, and a commit may be made after nobody waits for it
any more, or be delivered twice. A process that dies leaves behind what it had under way. The store itself forgets
nothing; that of several nodes may fail over (`tests.simulation.nodes.standby`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar
from unittest import mock

from broker.shared.reading import ahead
from protocol.schema import Buffer
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import (
    CommitUnknown,
    Fenced,
    FoundLog,
    Incarnation,
    LogChange,
    Member,
    OwnedLog,
    StoredRun,
    StoreUnreachable,
    Upload,
)
from tests.harness.loop import Entry, Scheduler
from tests.simulation.plan import draw
from tests.simulation.shape import FaultPlan, Plan

T = TypeVar("T")
Commit = Callable[[], Awaitable[frozenset[int]]]

KEPT_FAULTS = ("kill", "power", "stop", "cut", "clock", "drift")
TWICE = 0.35
"""The part of the seeds in which commits are delivered twice."""
COPY_S = 1.0
"""How much later than the first a copy may arrive."""


@dataclass(frozen=True, slots=True)
class Line:
    """How the store is reached."""

    delay_s: float
    lost_request: float = 0.0
    """How often something does not arrive, and its sender is told that the line is down."""
    lost_answer: float = 0.0
    late: float = 0.0
    """How often a commit arrives after its sender was told that nobody knows what became of it."""
    late_s: float = 0.0
    bucket: "Bucket | None" = None
    """Where bytes are kept apart."""
    twice: float = 0.0
    """How often a commit arrives once more: beside the first, which it may overtake, or late."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """How bytes are brought where they lie apart."""

    delay_s: float
    fails: float = 0.0
    """How often they do not come, or come and nobody hears of it."""


def draw_stored(seed: int) -> Plan:
    """The plan of a seed without what happens to disks."""
    plan = draw(seed)
    faults = tuple(_without_disk(one) for one in plan.faults if one.kind in KEPT_FAULTS)
    silence = plan.silence
    if silence is not None:
        ends = tuple(_without_disk(one) for one in silence.ends if one.kind in KEPT_FAULTS)
        silence = replace(silence, ends=ends, first="power" if silence.first == "kill" else silence.first)
    final = "power" if plan.final == "kill" else plan.final
    return replace(
        plan, page_cache=False, faults=faults, silence=silence, final=final, wide=None, threads=0, slow_disk=0.0
    )


def _without_disk(fault: FaultPlan) -> FaultPlan:
    """Whatever was not committed is gone with the process: no page cache outlives it."""
    return replace(fault, kind="power", operation="") if fault.kind in ("kill", "power") else fault


@contextmanager
def in_stretches(seed: int) -> Iterator[None]:
    """Logs here are short: what readers have brought at a time is little, or nobody would come to what is ahead."""
    size_bytes = Random(f"stretches {seed}").choice((1, 500, 3_000, 1 << 20))
    with mock.patch.object(ahead, "STRETCH_BYTES", size_bytes):
        yield


def ahead_bytes(seed: int) -> str:
    """How much a node reads ahead."""
    return str(Random(f"ahead {seed}").choice((0, 1_000, 10_000, 1 << 24)))


def draw_line(seed: int) -> Line:
    """That of a seed; every other one has bytes kept apart."""
    random = Random(f"bucket {seed}")
    bucket = Bucket(random.choice((0.001, 0.03, 0.3)), random.choice((0.0, 0.1, 0.5))) if seed % 2 else None
    again = Random(f"twice {seed}")
    twice = again.choice((0.05, 0.3)) if again.random() < TWICE else 0.0
    return replace(_draw_line(seed), bucket=bucket, twice=twice)


def _draw_line(seed: int) -> Line:
    random = Random(f"line {seed}")
    if random.random() < 0.25:
        return Line(random.choice((0.0005, 0.003)))
    return Line(
        random.choice((0.0005, 0.003, 0.02)),
        lost_request=random.choice((0.0, 0.02, 0.1)),
        lost_answer=random.choice((0.0, 0.02, 0.1)),
        late=random.choice((0.0, 0.02, 0.1)),
        late_s=random.choice((0.005, 0.05, 1.0)),
    )


class DistantStore:
    """`storage.shared.store.SharedStore` as one process reaches it."""

    def __init__(
        self,
        model: StoreInMemory,
        scheduler: Scheduler,
        line: Line,
        random: Random,
        *,
        hit: Callable[[str], None] = lambda name: None,
        is_cut: Callable[[], bool] = lambda: False,
    ) -> None:
        self._model = model
        self._scheduler = scheduler
        self._line = line
        self._random = random
        self._hit = hit
        self._is_cut = is_cut
        """Whether nothing of it gets through either way now."""

    async def open(self) -> None:
        await self._asked(self._model.open)

    async def close(self) -> None:
        await self._model.close()

    async def cluster_id(self, wanted: str | None, drawn: str) -> str:
        return await self._asked(lambda: self._model.cluster_id(wanted, drawn))

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        return await self._asked(lambda: self._model.join(node_id, about))

    async def members(self) -> list[Member]:
        return await self._shown(self._model.members)

    async def fence(self, who: Incarnation, other: Incarnation, silent_ms: int) -> bool:
        return await self._asked(lambda: self._model.fence(who, other, silent_ms))

    async def heartbeat(self, who: Incarnation) -> None:
        await self._shown(lambda: self._model.heartbeat(who))

    async def tell(self) -> None:
        """Hints are lost here."""

    async def wait_until_told(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)

    async def leave(self, who: Incarnation) -> None:
        await self._asked(lambda: self._model.leave(who))

    async def claim(self, who: Incarnation, topic_id: bytes, index: int, epoch: int | None) -> OwnedLog:
        return await self._asked(lambda: self._model.claim(who, topic_id, index, epoch))

    async def look(self, who: Incarnation, topic_id: bytes, index: int, *, with_kept: bool) -> FoundLog | None:
        return await self._asked(lambda: self._model.look(who, topic_id, index, with_kept=with_kept))

    @property
    def keeps_apart(self) -> bool:
        return self._model.keeps_apart

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        bucket, random = self._line.bucket, self._random
        assert bucket is not None, "bytes go with the commit"
        copied = [bytes(piece) for piece in data]
        await asyncio.sleep(bucket.delay_s * (0.5 + random.random()))
        if random.random() < bucket.fails or self._is_cut():
            if random.random() < 0.5:
                await self._model.upload(who, upload_id, copied)
            self._hit("store.upload-failed")
            raise StoreUnreachable("the bucket does not answer")
        self._hit("store.uploaded")
        return await self._model.upload(who, upload_id, copied)

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        copied = data if isinstance(data, Upload) else [bytes(piece) for piece in data]
        if any(change.replaced is not None for change in changes):
            self._hit("store.replaced")

        async def commit() -> frozenset[int]:
            return await self._model.commit(who, object_id, copied, changes)

        line, random = self._line, self._random
        late_s = self._late_s()
        is_down = self._is_down(self._connection())
        if late_s is not None and not is_down:
            self._hit("store.late")
            self._arrives_late(object_id, commit, late_s)
            await asyncio.sleep(self._delay_s())
            raise CommitUnknown("the line was cut")
        is_doubled = line.twice > 0 and random.random() < line.twice and not is_down
        try:
            return await self._asked(self._doubled(object_id, commit) if is_doubled else commit)
        except _AnswerLost as lost:
            raise CommitUnknown("the answer was lost") from lost
        except StoreUnreachable as lost:
            if is_doubled or random.random() < 0.5:  # Of two, the other may come yet.
                raise CommitUnknown(str(lost)) from lost
            raise

    async def settle(self, who: Incarnation, object_id: int) -> frozenset[int] | None:
        found = await self._asked(lambda: self._model.settle(who, object_id))
        self._hit("store.given-up" if found is None else "store.found-made")
        return found

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        return await self._shown(lambda: self._model.runs(log_id, offset, limit))

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        self._hit("store.brought")
        return await self._shown(lambda: self._model.read(runs, for_reader=for_reader))

    async def name_of(self, object_id: int) -> str:
        return await self._shown(lambda: self._model.name_of(object_id))

    async def topic_ids(self) -> list[bytes]:
        return await self._shown(self._model.topic_ids)

    async def forget(self, who: Incarnation, topic_id: bytes) -> None:
        self._hit("store.forgotten")
        await self._asked(lambda: self._model.forget(who, topic_id))

    async def collect(self, older_ms: int, limit: int) -> int:
        return await self._asked(lambda: self._model.collect(older_ms, limit))

    # -- the line --------------------------------------------------------------------------------------------

    def _delay_s(self) -> float:
        return self._line.delay_s * (0.5 + self._random.random())

    def _late_s(self) -> float | None:
        """How late the next commit arrives, of which its sender is told before that nobody knows; None: it does not."""
        line, random = self._line, self._random
        return random.random() * line.late_s if random.random() < line.late else None

    def _connection(self) -> int:
        """Which one is used now."""
        return 0

    def _is_down(self, connection: int) -> bool:
        """Whether nothing goes over it any more."""
        return self._is_cut()

    def _takes_what_comes(self) -> bool:
        """Whether what is on its way is taken, whatever became of who has sent it."""
        return True

    async def _made(self, work: Callable[[], Awaitable[T]]) -> T:
        """What is found is there for good before it is answered."""
        return await work()

    async def _asked(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self._shown(lambda: self._made(work))

    async def _shown(self, work: Callable[[], Awaitable[T]]) -> T:
        """What is answered as it is found: the port promises nothing more of it."""
        line, random, connection = self._line, self._random, self._connection()
        await asyncio.sleep(self._delay_s())
        if random.random() < line.lost_request or self._is_down(connection):
            self._hit("store.unreachable")
            raise StoreUnreachable("the line is down")
        found = await work()
        await asyncio.sleep(self._delay_s())
        if random.random() < line.lost_answer or self._is_down(connection):
            self._hit("store.answer-lost")
            raise _AnswerLost("the line is down")
        return found

    def _doubled(self, object_id: int, commit: Commit) -> Commit:
        """The same commit, delivered twice: whichever arrives first is made and answered, the other changes nothing."""
        random = self._random
        made: list[frozenset[int]] = []

        async def arrive() -> frozenset[int]:
            if self._model.knows(object_id) and made:
                self._hit("store.overtaken")
                return made[0]
            return await copy()

        async def copy() -> frozenset[int]:
            made.append(await commit())
            return made[0]

        self._hit("store.twice")
        after_s = random.choice((random.random() * 2 * self._line.delay_s, random.random() * COPY_S))
        self._arrives_late(object_id, copy, after_s)
        return arrive

    def _arrives_late(self, object_id: int, commit: Commit, after_s: float) -> None:
        """Whatever becomes of its sender."""

        def arrive() -> None:
            if self._model.knows(object_id):  # It was given up meanwhile, or made: a copy of it has come before.
                return
            try:
                commit().__await__().send(None)
            except StopIteration:
                pass
            except Fenced:
                self._hit("store.fenced-commit")  # Who sent it does not hear of it.

        self._comes(arrive, after_s)

    def _comes(self, arrive: Callable[[], None], after_s: float) -> None:
        """Over the line, whatever becomes of its sender."""

        def come() -> None:
            if self._takes_what_comes():
                arrive()

        scheduler = self._scheduler
        scheduler.at(scheduler.now + after_s, Entry(come, (), scheduler.machine, None))


class _AnswerLost(StoreUnreachable):
    """What was asked was done. Who asks for anything but a commit asks again."""
