"""Deadlines by key."""

import sys
from collections.abc import Callable

from coordinator.deadlines import Deadlines
from tests.harness.memory_shard_log import MemoryShardLog, VirtualAlarm, VirtualTime
from tests.unit.transactions.test_shard_runtime import ask, opened


def test_what_is_due_comes_earliest_first_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at_ms in (("c", 30), ("a", 10), ("b", 20)):
        deadlines.set(key, at_ms)
    assert deadlines.next_ms() == 10
    assert list(deadlines.due(20)) == ["a", "b"]
    assert list(deadlines.due(20)) == []
    assert deadlines.next_ms() == 30


def test_a_deadline_that_moved_counts_at_its_new_time_only() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 50)
    deadlines.set("b", 20)
    deadlines.clear("b")
    assert deadlines.next_ms() == 50
    assert list(deadlines.due(49)) == []
    assert deadlines.get("a") == 50
    assert list(deadlines.due(50)) == ["a"]
    assert deadlines.next_ms() is None


def test_moving_one_deadline_for_ever_costs_no_memory() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for at_ms in range(10_000):
        deadlines.set("a", at_ms)
    assert len(deadlines._heap) < 100
    assert deadlines.next_ms() == 9_999


def test_a_deadline_that_is_over_holds_no_key() -> None:
    """Clients choose parts of keys, of up to 32 KB; the time may be far away still."""
    deadlines: Deadlines[tuple[str, int]] = Deadlines()
    long = "x" * 32_000
    before = sys.getrefcount(long)
    for number in range(32):
        deadlines.set((long, number), 1_000_000)
        deadlines.set((long, number), 2_000_000)
    assert sys.getrefcount(long) == before + 32
    deadlines.set((long, 0), 10)
    assert list(deadlines.due(10)) == [(long, 0)]
    for number in range(1, 32):
        deadlines.clear((long, number))
    assert sys.getrefcount(long) == before


def test_a_deadline_reset_during_the_handout_of_due_ones() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    for key in deadlines.due(10):
        deadlines.set(key, 100)
    assert deadlines.next_ms() == 100


def test_deadlines_that_are_postponed_keep_their_order() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at_ms in (("a", 10), ("b", 20), ("c", 25)):
        deadlines.set(key, at_ms)
    deadlines.postpone(100, lambda key: key != "c")
    assert [deadlines.get(key) for key in ("a", "b", "c")] == [110, 120, 25]
    assert deadlines.next_ms() == 25
    assert list(deadlines.due(110)) == ["c", "a"]
    assert deadlines.next_ms() == 120


def test_a_deadline_that_moves_away_costs_no_alarm() -> None:
    """Every heartbeat moves one: an alarm that rings too early looks for the next."""
    time = VirtualTime()
    shard = opened(MemoryShardLog(), time)
    start_ms, rung = time.now_ms(), list[int]()
    set_at, armed = time.at, list[int]()

    def at(wall_ms: int, callback: Callable[[], None]) -> VirtualAlarm:
        armed.append(wall_ms - start_ms)
        return set_at(wall_ms, lambda: (rung.append(time.now_ms() - start_ms), callback()))

    time.at = at  # type: ignore[method-assign]
    for deadline_ms in (500, 600, 700, 300, 800):
        shard.machine.deadline_ms = start_ms + deadline_ms
        ask(shard)
    assert armed == [500, 300]
    time.advance(799)
    assert rung == [300] and armed == [500, 300, 800]
    time.advance(1)
    assert rung == [300, 800] and shard.log.end_offset == 1
