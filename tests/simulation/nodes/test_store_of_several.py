"""Defects of the way to a store that fails over, is slow, or is brought a commit twice: each is noticed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from broker.membership.life import SharedLife
from coordinator.cluster.topic_rules import METADATA_TOPIC_ID
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import LogChange, Upload
from tests.harness.loop import Scheduler
from tests.simulation import simulation
from tests.simulation.nodes.plan import FAILOVER, KILL, SLOW_STORE, draw_several
from tests.simulation.nodes.run import life_of
from tests.simulation.nodes.standby import StoreWithStandby
from tests.simulation.nodes.way import WayToStore
from tests.simulation.shape import FaultPlan, Plan
from tests.simulation.simulation import Result
from tests.simulation.stored import Line, draw_line

NODES = 3
SECOND = 1 << 31
"""In the id of an object: what was made again."""

Planted = AbstractContextManager[Any]


def _failing_over(seed: int, *, alone: bool = False) -> tuple[Plan, Line]:
    """The primary is lost again and again. Nodes are lost with it, unless it is `alone`: nobody asks again for what the
    standby is without."""
    plan = replace(draw_several(seed, NODES), duration_s=10.0)
    faults: list[FaultPlan] = []
    for number in range(8):
        at_s, still_s = 0.3 + 1.2 * number, 0.4
        faults.append(FaultPlan(FAILOVER, at_s, amount=0.05, down_s=still_s))
        if not alone:
            faults += [FaultPlan(KILL, at_s + still_s, count=node, down_s=0.01) for node in range(NODES)]
    return replace(plan, faults=tuple(faults)), replace(draw_line(seed), bucket=None)


def _failing_over_alone(seed: int) -> tuple[Plan, Line]:
    return _failing_over(seed, alone=True)


def _slow(seed: int) -> tuple[Plan, Line]:
    """One node after the other is answered late."""
    plan = replace(draw_several(seed, NODES), duration_s=10.0)
    slow = [FaultPlan(SLOW_STORE, 0.3 + 3.0 * number, "one", number % NODES, amount=3.0) for number in range(3)]
    return replace(plan, faults=tuple(slow)), draw_line(seed)


def _doubled(seed: int) -> tuple[Plan, Line]:
    """One node after the other is lost, so that others read what is there."""
    kills = [FaultPlan(KILL, 0.7 * number, count=number % NODES, down_s=0.1) for number in range(1, 9)]
    plan = replace(draw_several(seed, NODES), faults=tuple(kills))
    return plan, replace(draw_line(seed), bucket=None, twice=0.1)


def _a_look_does_not_wait_for_the_standby() -> Planted:
    """What is followed and read near is what the primary shows."""

    async def look(self: WayToStore, who: Any, topic_id: bytes, index: int, *, with_kept: bool) -> Any:
        return await self._shown(lambda: self._store.look(who, topic_id, index, with_kept=with_kept))

    return mock.patch.object(WayToStore, "look", look)


def _acknowledged_before_the_standby_has_it() -> Planted:
    async def made(self: WayToStore, work: Any) -> Any:
        return await work()

    return mock.patch.object(WayToStore, "_made", made)


def _what_the_primary_had_made_passes_for_made() -> Planted:
    """Whatever has become of it since."""

    async def commit(self: StoreWithStandby, who: Any, object_id: int, *rest: Any) -> frozenset[int]:
        made[self, object_id] = await true(self, who, object_id, *rest)
        return made[self, object_id]

    async def settle(self: StoreWithStandby, who: Any, object_id: int) -> frozenset[int] | None:
        found = await settled(self, who, object_id)
        return made.get((self, object_id), found)

    made: dict[Any, frozenset[int]] = {}
    true, settled = StoreWithStandby.commit, StoreWithStandby.settle
    return mock.patch.multiple(StoreWithStandby, commit=commit, settle=settle)


def _what_is_delivered_twice_is_made_twice() -> Planted:
    """Behind what is there by then. Not of the metadata: no node would get as far as to serve."""

    async def commit(self: StoreInMemory, who: Any, object_id: int, data: Any, changes: Any) -> frozenset[int]:
        known = self._objects.get(object_id)
        if known is None:
            return await true(self, who, object_id, data, changes)
        metadata = self._logs[METADATA_TOPIC_ID, 0].log_id
        again = [one for one in changes if one.runs and one.replaced is None and one.log_id != metadata]
        if object_id | SECOND not in self._objects and not isinstance(data, Upload):
            whole = bytearray(b"".join(data))
            await true(self, who, object_id | SECOND, [whole], [_behind(self, whole, one) for one in again])
        return known.refused

    true = StoreInMemory.commit
    return mock.patch.multiple(StoreInMemory, commit=commit, knows=lambda self, object_id: False)


def _behind(store: StoreInMemory, data: bytearray, change: LogChange) -> LogChange:
    """The same runs once more at the end of their log, with the offsets that are in their batches."""
    log = store._by_id.get(change.log_id)
    by = 0 if log is None else log.next_offset - change.base_offset
    for run in change.runs:
        at, end = run.position, run.position + run.size_bytes
        while at < end:
            data[at : at + 8] = (int.from_bytes(data[at : at + 8]) + by).to_bytes(8)
            at += 12 + int.from_bytes(data[at + 8 : at + 12])
    runs = [replace(run, base_offset=run.base_offset + by, last_offset=run.last_offset + by) for run in change.runs]
    return LogChange(change.log_id, change.owner_epoch, change.base_offset + by, tuple(runs))


def _who_is_too_slow_goes_on_answering() -> Planted:
    """Out of memory, though its session is over."""

    def may_be_behind(self: SharedLife) -> bool:
        way = self._store
        assert isinstance(way, WayToStore)
        return not way._is_slow() and true(self)

    true = SharedLife._may_be_behind
    return mock.patch.object(SharedLife, "_may_be_behind", may_be_behind)


ENOUGH = 300_000
"""Callbacks, three times what any of these seeds takes: what does not come to an end is seen soon."""
Weather = Callable[[int], tuple[Plan, Line]]
DEFECTS: dict[str, tuple[Callable[[], Planted], Weather, tuple[int, ...]]] = {
    "a look does not wait for the standby": (_a_look_does_not_wait_for_the_standby, _failing_over, (2,)),
    "what is made is acknowledged before the standby has it": (
        _acknowledged_before_the_standby_has_it,
        _failing_over,
        (16, 15),
    ),
    "what the primary had made passes for made": (
        _what_the_primary_had_made_passes_for_made,
        _failing_over_alone,
        (8,),
    ),
    "what is delivered twice is made twice": (_what_is_delivered_twice_is_made_twice, _doubled, (3,)),
    "who is too slow for its session goes on answering": (_who_is_too_slow_goes_on_answering, _slow, (16,)),
}
"""Each with seeds that have noticed it."""


def _run(plan: Plan, line: Line) -> Result:
    return simulation.run(plan, life_of(NODES, line), Scheduler(callbacks=ENOUGH))


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_noticed(name: str) -> None:
    plant, weather, seeds = DEFECTS[name]
    with plant():
        assert any(_run(*weather(seed)).violations for seed in seeds), "nobody noticed"


@pytest.mark.parametrize("weather", [_failing_over, _failing_over_alone, _slow, _doubled])
def test_nothing_is_wrong_without(weather: Weather) -> None:
    for seed in sorted({seed for _, of_defect, seeds in DEFECTS.values() if of_defect is weather for seed in seeds}):
        assert _run(*weather(seed)).violations == [], f"seed {seed}"
