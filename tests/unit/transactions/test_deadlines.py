"""Deadlines by key."""

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_heap_is_made_anew_only_when_most_of_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time costs as much as there are deadlines."""
    made: list[int] = []

    def heapify(heap: list[tuple[int, int]]) -> None:
        made.append(len(heap))

    monkeypatch.setattr("coordinator.deadlines.heapq.heapify", heapify)
    deadlines: Deadlines[int] = Deadlines()
    for at_ms in range(4):
        for key in range(1_000):
            deadlines.set(key, 1_000 * at_ms + key)
    assert made == []
    deadlines.set(0, 5_000)
    assert made == [1_000]
    few: Deadlines[int] = Deadlines()
    for at_ms in range(64):
        few.set(0, at_ms)
    assert made == [1_000], "that is nothing"
    few.set(0, 64)
    assert made == [1_000, 1]


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


STEP = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("abcd"), st.integers(0, 5)),
    st.tuples(st.just("clear"), st.sampled_from("abcd"), st.just(0)),
    st.tuples(st.just("due"), st.just(""), st.integers(0, 6)),
    st.tuples(st.just("postpone"), st.sampled_from("abcd"), st.integers(1, 3)),
)


@given(st.lists(STEP, max_size=40))
def test_any_steps_leave_what_a_list_would_have(steps: list[tuple[str, str, int]]) -> None:
    """Ties come out in the order in which they were set; one that is set to where it is keeps its place."""
    deadlines: Deadlines[str] = Deadlines()
    listed: list[tuple[str, int]] = []
    first: list[str] = []
    for what, key, number in steps:
        if what == "set":
            deadlines.set(key, number)
            if (key, number) not in listed:
                listed = [one for one in listed if one[0] != key] + [(key, number)]
            first += [key] * (key not in first)
        elif what == "clear":
            deadlines.clear(key)
            listed = [one for one in listed if one[0] != key]
        elif what == "due":
            expected = [one for one in sorted(listed, key=lambda one: one[1]) if one[1] <= number]
            assert list(deadlines.due(number)) == [name for name, _ in expected]
            listed = [one for one in listed if one not in expected]
        else:
            deadlines.postpone(number, lambda one, spared=key: one != spared)  # type: ignore[misc]
            listed = [(name, at_ms + number * (name != key)) for name, at_ms in listed]
        known = dict(listed)
        first = [one for one in first if one in known]
        assert deadlines.next_ms() == min(known.values(), default=None)
        assert {name: deadlines.get(name) for name in "abcd"} == {name: known.get(name) for name in "abcd"}
        assert (len(deadlines), list(deadlines.keys())) == (len(known), first)
