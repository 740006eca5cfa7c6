"""Rounds of compaction over many partitions, their pace, and the driver of steps."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.config.broker_config import BrokerConfig
from broker.process.environment import RealEnvironment
from broker.process.steps import run_steps
from broker.upkeep.housekeeping import Housekeeping
from broker.upkeep.pace import LONGEST_WAIT_MS, Pace
from storage.retention import SEGMENTS_PER_SLICE
from storage.steps import Spent, Steps
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS, Rig, plain
from tests.unit.partition.test_compaction import COMPACTED, filled, latest, opened


class World(RealEnvironment):
    """What may block runs at once; the clock stands still."""

    def __init__(self) -> None:
        super().__init__(None, sync_threads=1)
        self.slept = 0.0

    def wall_ms(self) -> Any:
        return NOW_MS

    def monotonic_ms(self) -> Any:
        return 0

    def run_blocking(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(work())
        except OSError as error:
            done.set_exception(error)
        return done


def housekeeping(rigs: list[Rig], **settings: str) -> Housekeeping:
    async def nothing() -> None: ...

    def fails(error: BaseException) -> None:
        raise error

    return Housekeeping(
        config=BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}),
        environment=World(),
        topics=None,  # type: ignore[arg-type]
        open_partitions=lambda: [rig.partition for rig in rigs],
        write_checkpoints=nothing,
        prune_share_state=nothing,
        sweep_moments=nothing,
        fail=fails,
    )


def test_one_log_that_cannot_be_compacted_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rigs = [opened(SimulatedFiles()) for _ in range(3)]
    for rig in rigs:
        filled(rig, 40)

    def stumbles(*_: object) -> Steps[None]:
        raise ValueError("what nobody has thought of")
        yield

    monkeypatch.setattr(rigs[1].partition.compactor, "run", stumbles)
    before = [rig.log.size_bytes for rig in rigs]
    with caplog.at_level(logging.ERROR):
        asyncio.run(housekeeping(rigs).compact())
    after = [rig.log.size_bytes for rig in rigs]
    assert [new < old for new, old in zip(after, before, strict=True)] == [True, False, True]
    assert [len(latest(rig)) for rig in rigs] == [2, 2, 2]
    assert any("compaction failed" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("delay_ms", [0, 1])
def test_what_compaction_gave_up_leaves_the_disk_without_a_round_of_retention(delay_ms: int) -> None:
    """After file.delete.delay.ms, however seldom retention comes; not while a flush may be syncing it."""
    files = SimulatedFiles()
    rig = opened(files, config=replace(COMPACTED, file_delete_delay_ms=delay_ms))
    filled(rig, 200)
    keeping = housekeeping([rig])
    keeping._topics = cast(Any, SimpleNamespace(sweep=lambda: None))
    asyncio.run(keeping.compact())

    def left() -> int:
        return sum(name.endswith(".log.deleted") for name in files.list("t-0"))

    before = left()
    assert before > 2 * SEGMENTS_PER_SLICE
    rig.produce(plain(b"v", key=b"k0"))
    flush = rig.log.begin_flush()
    assert flush is not None
    asyncio.run(keeping.free_space())
    assert left() == before
    flush.run()
    rig.log.finish_flush(flush)
    asyncio.run(keeping.free_space())
    assert left() == (before if delay_ms else 0)
    assert len(latest(rig)) == 2


def test_the_rate_of_compaction_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """`log.cleaner.io.max.bytes.per.second`: read and written bytes count, and a pass waits for them."""
    rig = opened(SimulatedFiles())
    filled(rig, 40)
    waits: list[float] = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("broker.upkeep.housekeeping.asyncio.sleep", counted)
    asyncio.run(housekeeping([rig], log_cleaner_io_max_bytes_per_second="100").compact())
    compactor = rig.partition.compactor
    assert compactor is not None and compactor.moved_bytes > 1_000
    assert waits.count(LONGEST_WAIT_MS / 1000) > 3


def test_a_pace_counts_from_its_beginning() -> None:
    now_ms = 5_000
    pace = Pace(lambda: now_ms, lambda: 1_000.0)
    assert pace.delay_ms(300) == 300
    now_ms += 200
    assert (pace.delay_ms(300), pace.delay_ms(100)) == (100, 0)
    assert pace.delay_ms(1 << 40) == LONGEST_WAIT_MS
    assert Pace(lambda: now_ms, lambda: 0.0).delay_ms(0) == 0


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(story)


def test_an_error_of_blocking_work_reaches_its_caller() -> None:
    def work(spent: Spent) -> Steps[str]:
        def fails() -> None:
            raise OSError(2, "not there")

        try:
            yield fails
        except OSError:
            yield None
            return "went on"
        return "heard nothing"

    assert run(run_steps(World(), work)) == "went on"


def test_cancelling_ends_the_work() -> None:
    ended: list[str] = []

    def work(spent: Spent) -> Steps[None]:
        try:
            while True:
                yield None
        finally:
            ended.append("cleaned up")

    async def story() -> None:
        task = asyncio.ensure_future(run_steps(World(), work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story())
    assert ended == ["cleaned up"]
