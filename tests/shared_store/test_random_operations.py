"""The same random operations on the model and on each engine, right and wrong ones: every answer, and all that can be
seen of the store, is the same.
"""

import random
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from storage.shared.memory_store import StoreInMemory
from storage.shared.store import (
    Fenced,
    Incarnation,
    LogChange,
    Member,
    NotOwned,
    ObjectMissing,
    Run,
    StoredRun,
    StoreRefused,
    Upload,
)
from tests.shared_store.engines import ENGINES, LONG_MS, Engine, Shared, SharedModel, object_of
from tests.shared_store.objects.shared_s3 import mixing_engine

TOPICS = (bytes(16), bytes(range(16)))
STEPS = 250
EXPECTED = (Fenced, NotOwned, ObjectMissing, StoreRefused)


async def answer(asked: Awaitable[object]) -> tuple[str, object]:
    try:
        return "answered", _seen(await asked)
    except EXPECTED as error:
        return type(error).__name__, str(error)
    except AssertionError:
        return "a bug", None


def _seen(found: object) -> object:
    """What can be compared: clocks of engines go on by themselves, by little."""
    if not isinstance(found, list):
        return found
    return [replace(one, silent_ms=one.silent_ms // LONG_MS) if isinstance(one, Member) else one for one in found]


def _stretch(object_id: int, position: int, size_bytes: int) -> StoredRun:
    return StoredRun(object_id, Run(0, 0, position, size_bytes, 0))


class Comparison:
    """Draws operations from a seed, and asks both."""

    def __init__(self, seed: int, model: SharedModel, engine: Shared) -> None:
        self._random = random.Random(seed)
        self._model = model
        self._engine = engine
        self._lives = [Incarnation(1, 1)]
        self._objects: dict[int, int] = {}
        """With their sizes."""
        self._numbers = 0
        self._uploads: list[Upload] = []
        """Of which no commit is known."""
        self.answered: dict[str, int] = {}

    def _truth(self) -> StoreInMemory:
        return self._model.store

    async def _same(self, operation: str, *arguments: object, **named: object) -> object:
        """What both answer."""
        both = []
        for store in (self._model.store, self._engine.store):
            both.append(await answer(getattr(store, operation)(*arguments, **named)))
        assert both[0] == both[1], f"{operation}{arguments}{named}: the model says {both[0]}, the engine {both[1]}"
        kind, found = both[0]
        self.answered[f"{operation} {kind}"] = self.answered.get(f"{operation} {kind}", 0) + 1
        return found if kind == "answered" else None

    async def begin(self) -> None:
        await self._same("cluster_id", None, "drawn")

    async def step(self) -> None:
        operations = {
            self._commit: 40,
            self._claim: 16,
            self._read: 10,
            self._settle: 8,
            self._join: 7,
            self._members: 4,
            self._fence: 6,
            self._look: 6,
            self._forward: 6,
            self._collect: 6,
            self._heartbeat: 4,
            self._leave: 1,
            self._forget: 1,
        }
        chosen = self._random.choices(list(operations), list(operations.values()))[0]
        await chosen()

    def _who(self) -> Incarnation:
        """Mostly who lives; else one that is over, or never was."""
        drawn = self._random.random()
        if drawn < 0.85:
            return self._random.choice(list(self._truth()._living.values()) or self._lives)
        if drawn < 0.97:
            return self._random.choice(self._lives)
        return Incarnation(self._random.randrange(4), self._random.randrange(1, 9))

    async def _join(self) -> None:
        found = await self._same(
            "join", self._random.randrange(1, 5), self._random.randbytes(self._random.choice((0, 9)))
        )
        assert isinstance(found, Incarnation)
        self._lives.append(found)

    async def _members(self) -> None:
        await self._same("members")

    async def _fence(self) -> None:
        silent_ms = self._random.choice((0, LONG_MS // 2, LONG_MS // 2, LONG_MS + LONG_MS // 2))
        await self._same("fence", self._who(), self._who(), silent_ms)

    async def _look(self) -> None:
        topic, index = self._random.choice(TOPICS), self._random.randrange(4)
        await self._same("look", self._who(), topic, index, with_kept=self._random.random() < 0.5)

    async def _heartbeat(self) -> None:
        await self._same("heartbeat", self._who())

    async def _leave(self) -> None:
        await self._same("leave", self._who())

    async def _forward(self) -> None:
        ms = self._random.randrange(1, 3) * LONG_MS
        await self._model.forward(ms)
        await self._engine.forward(ms)

    async def _claim(self) -> None:
        topic, index = self._random.choice(TOPICS), self._random.randrange(3)
        log = self._truth()._logs.get((topic, index))
        known = 0 if log is None else log.owner_epoch
        epoch = self._random.choice((None, None, known, known + self._random.randrange(1, 4), max(0, known - 1)))
        await self._same("claim", self._who(), topic, index, epoch)

    def _changes(self, who: Incarnation) -> list[LogChange]:
        """Mostly of its own logs."""
        logs = [log for log in self._truth()._by_id.values() if log.owner == who.number or self._random.random() < 0.1]
        chosen = self._random.sample(logs, self._random.randrange(0, len(logs) + 1))
        changes = []
        for log in chosen:
            base = log.next_offset
            runs = []
            for _ in range(self._random.choice((0, 1, 1, 1, 2, 3))):
                count = self._random.randrange(1, 5)
                position = self._random.randrange(50)
                size, crc = self._random.randrange(1, 50), self._random.choice((None, 0, 7, (1 << 32) - 1))
                runs.append(Run(base, base + count - 1, position, size, base * 3, crc))
                base += count
            start = self._random.choice((None, None, None, self._random.randint(log.start_offset, base)))
            first = self._random.randint(log.first_offset, log.start_offset if start is None else start)
            replaced, replacements = self._replaced([one.run for one in log.runs])
            changes.append(
                LogChange(
                    log.log_id,
                    log.owner_epoch,
                    log.next_offset,
                    tuple(runs),
                    start,
                    self._random.choice((None, None, first)),
                    self._random.choice((None, self._random.randbytes(self._random.choice((0, 3, 5_000))))),
                    replaced,
                    replacements,
                )
            )
        return changes

    def _replaced(self, runs: list[Run]) -> tuple[tuple[int, int] | None, tuple[Run, ...]]:
        """Some neighbours, and one or two that take their place; in most cases none."""
        if not runs or self._random.random() < 0.7:
            return None, ()
        begin = self._random.randrange(len(runs))
        end = self._random.randrange(begin, len(runs))
        first, last = runs[begin].base_offset, runs[end].last_offset
        cut = self._random.randint(first, last)
        made = [(first, cut), (cut + 1, last)] if cut < last else [(first, last)]
        return (first, last), tuple(
            Run(base, end, self._random.randrange(50), 1 + base % 7, base, base) for base, end in made
        )

    def _made_wrong(self, change: LogChange) -> LogChange:
        """Another epoch, or another place; or a log that is not."""
        wrong = self._random.randrange(1, 3) * self._random.choice((-1, 1))
        kind = self._random.randrange(3)
        base = change.base_offset + (wrong if kind == 1 else 0)
        shift = base - change.base_offset
        return LogChange(
            change.log_id + (1_000 if kind == 2 else 0),
            change.owner_epoch + (wrong if kind == 0 else 0),
            base,
            tuple(
                Run(
                    run.base_offset + shift, run.last_offset + shift, run.position, run.size_bytes, run.max_timestamp_ms
                )
                for run in change.runs
            ),
            change.start_offset,
            change.first_offset,
            change.kept,
            change.replaced,
            change.replacements,
        )

    async def _commit(self) -> None:
        who = self._who()
        changes = [self._made_wrong(one) if self._random.random() < 0.15 else one for one in self._changes(who)]
        object_id = self._object(who, 0.05)
        data = [self._random.randbytes(self._random.randrange(1, 60)) for _ in range(self._random.randrange(3))]
        if not data or not self._engine.store.keeps_apart or self._random.random() < 0.4:
            if await self._same("commit", who, object_id, data, changes) is not None:
                self._objects[object_id] = sum(map(len, data))
            return
        upload = await self._upload(who, data)
        if await self._same("commit", who, object_id, upload, changes) is not None:
            self._objects[object_id] = upload.size_bytes
            self._uploads.remove(upload)

    async def _upload(self, who: Incarnation, data: list[bytes]) -> Upload:
        """Mostly a new one; else one that no commit has named."""
        earlier = [one for one in self._uploads if one.upload_id >> 32 == who.number]
        if earlier and self._random.random() < 0.3:
            return self._random.choice(earlier)
        self._numbers += 1
        made = await self._same("upload", who, object_of(who, self._numbers), data)
        assert isinstance(made, Upload)
        self._uploads.append(made)
        return made

    def _object(self, who: Incarnation, share_of_old: float) -> int:
        its_own = [object_id for object_id in self._objects if object_id >> 32 == who.number]
        if its_own and self._random.random() < share_of_old:
            return self._random.choice(its_own)
        self._numbers += 1
        return object_of(who, self._numbers)

    async def _settle(self) -> None:
        who = self._who()
        object_id = self._object(who, 0.7)
        await self._same("settle", who, object_id)
        self._objects.setdefault(object_id, 0)

    async def _forget(self) -> None:
        await self._same("forget", self._who(), self._random.choice(TOPICS))

    async def _collect(self) -> None:
        older_ms = self._random.choice((LONG_MS // 2, LONG_MS + LONG_MS // 2))
        await self._same("collect", older_ms, self._random.randrange(1, 9))

    async def _read(self) -> None:
        log_id = self._random.randrange(1, 9)
        await self._same("runs", log_id, self._random.randrange(40), self._random.randrange(1, 6))
        if self._objects:
            object_id, size = self._random.choice(list(self._objects.items()))
            position = self._random.randint(0, size)
            await self._same("read", [_stretch(object_id, position, self._random.randint(0, size - position))])

    async def compare_all(self) -> None:
        """All that can be seen. The last claims change the epochs, of both alike."""
        for log_id in range(1, self._truth()._last_log_id + 2):
            await self._same("runs", log_id, 0, 10_000)
        for object_id, size in self._objects.items():
            await self._same("read", [_stretch(object_id, 0, size)])
        await self._same("members")
        who = await self._same("join", 1, b"")
        assert isinstance(who, Incarnation)
        self._lives.append(who)
        for topic in TOPICS:
            for index in range(3):
                await self._same("look", who, topic, index, with_kept=True)
                await self._same("claim", who, topic, index, None)


def compare(seed: int, engine: Engine, steps: int = STEPS) -> dict[str, int]:
    answered: dict[str, int] = {}

    async def story(shared: Shared) -> None:
        comparison = Comparison(seed, SharedModel(), shared)
        await comparison.begin()
        for number in range(steps):
            await comparison.step()
            if number % 50 == 49:
                await comparison.compare_all()
        answered.update(comparison.answered)

    engine.tell(story)
    return answered


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("seed", range(6))
def test_every_answer_is_that_of_the_model(seed: int, engine: str, request: pytest.FixtureRequest, schema: str) -> None:
    answered = compare(seed, mixing_engine(engine, request, schema))
    assert answered["commit answered"] > 20
    assert engine == "postgresql" or answered["upload answered"] > 10


def test_the_operations_are_of_every_kind() -> None:
    """Told to two models, which costs nothing: the draw has rights and wrongs of everything."""
    answered: dict[str, int] = {}
    for seed in range(6):
        for kind, count in compare(seed, Engine(SharedModel)).items():
            answered[kind] = answered.get(kind, 0) + count
    wanted = (
        "commit answered",
        "commit Fenced",
        "commit a bug",
        "claim NotOwned",
        "read ObjectMissing",
        "settle Fenced",
        "join answered",
        "members answered",
        "fence answered",
        "fence Fenced",
        "fence a bug",
        "look answered",
        "look Fenced",
    )
    assert [kind for kind in wanted if answered.get(kind, 0) < 3] == []
