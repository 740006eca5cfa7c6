"""Checkpoints of many partitions are gathered in slices, and say what holds when they have been."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from broker.process.time_slice import SliceQueue, TimeSlice
from broker.upkeep.checkpoints import Checkpoints, Offsets
from tests.harness.loop import Scheduler, new_process, run_on
from tests.harness.work_clock import WorkClock

MANY = 200


@dataclass
class Known:
    recovery_point: int = 1
    log_start_offset: int = 1


@dataclass(eq=False)
class OpenPartition:
    index: int
    topic: str = "t"
    log: Any = field(default_factory=lambda: OpenLog())


@dataclass
class OpenLog:
    recovery_point: int = 7
    start_offset: int = 0


class OneTopic:
    """With many partitions; `recovery_of` is what a data folder knows of those that are closed."""

    name = "t"
    partitions = range(MANY)

    def all(self) -> "list[OneTopic]":
        return [self]

    def recovery_of(self, topic: str, index: int) -> Known:
        return Known()


class World:
    """In which every look at the clock takes time."""

    def time_slice(self) -> TimeSlice:
        return TimeSlice(WorkClock().now, SliceQueue(WorkClock().now))


def gathered(opened: Callable[[], Sequence[OpenPartition]], every_turn: Callable[[], None]) -> tuple[Offsets, Offsets]:
    """The offsets, and what was done in each turn of the loop meanwhile."""
    one: Any = OneTopic()
    checkpoints = Checkpoints(
        one, topics=one, open_partitions=cast(Any, opened), environment=cast(Any, World()), own=asyncio.ensure_future
    )

    async def both() -> tuple[Offsets, Offsets]:
        gathering = asyncio.ensure_future(checkpoints.offsets())
        while not gathering.done():
            every_turn()
            await asyncio.sleep(0)
        return gathering.result()

    return run_on(new_process(Scheduler(), "broker"), both())


def test_others_have_turns_while_checkpoints_are_gathered() -> None:
    turns: list[None] = []
    recovery_points, start_offsets = gathered(list, lambda: turns.append(None))
    assert recovery_points == start_offsets == {("t", index): 1 for index in range(MANY)}
    assert len(turns) > 5


def test_a_log_opened_meanwhile_is_reported_with_its_state() -> None:
    """Recovery may have cut it: what was written down before is not to be believed of it any more."""
    opened: list[OpenPartition] = []

    def open_another() -> None:
        if len(opened) < MANY:
            opened.append(OpenPartition(len(opened)))

    recovery_points, start_offsets = gathered(lambda: list(opened), open_another)
    assert len(opened) > 10
    results = [recovery_points["t", partition.index] for partition in opened[:-1]]
    assert results == [7] * len(results)
    assert not any(("t", partition.index) in start_offsets for partition in opened[:-1]), "it starts at 0 now"
