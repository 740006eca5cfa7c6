"""Work in slices: everybody gets a turn, and many waiting requests do not make a turn of the loop longer."""

import asyncio

import pytest

from broker.process.time_slice import FREE_TURNS, LONGEST_SLICE_S, SLICE_S, SliceQueue, TimeSlice
from tests.harness.work_clock import STEP_S, WorkClock


def test_a_slice_is_spent_by_time() -> None:
    clock = WorkClock()
    begun = TimeSlice(clock.now)
    steps = 0
    while not begun.spent():
        steps += 1
    assert STEP_S * steps == pytest.approx(0.0015, abs=STEP_S)


def test_one_of_many_works_in_each_turn() -> None:
    async def story() -> None:
        turns, worked = SliceQueue(WorkClock().now), [0]
        loop = asyncio.get_running_loop()
        most, running = 0, True

        def turn() -> None:
            nonlocal most
            most, worked[0] = max(most, worked[0]), 0
            if running:
                loop.call_soon(turn)

        async def work() -> None:
            one = TimeSlice(WorkClock().now, turns)
            for _ in range(5):
                await one.wait_for_turn()
                worked[0] += 1

        loop.call_soon(turn)
        await asyncio.gather(*(work() for _ in range(20)))
        running = False
        assert most == 1

    asyncio.run(story())


def test_what_takes_several_turns_waits_for_one_slice_at_most() -> None:
    """An answer that was synced goes from the thread to the connection before somebody works in slices again."""

    async def story() -> None:
        turns, slices, seen = SliceQueue(WorkClock().now), 0, []
        loop = asyncio.get_running_loop()

        def go_on(turns_left: int) -> None:
            if turns_left:
                loop.call_soon(go_on, turns_left - 1)
            else:
                seen.append(slices)

        for _ in range(10):
            await turns.wait()
            slices += 1
            if slices == 3:
                go_on(FREE_TURNS)
        assert seen == [3]

    asyncio.run(story())


@pytest.mark.parametrize(("others_s", "between"), [(0.0, FREE_TURNS + 2), (2 * SLICE_S, 3)])
def test_on_a_busy_loop_who_waits_does_not_come_too_short(others_s: float, between: int) -> None:
    """The free turns end when the others have had as long as a slice."""

    async def story() -> None:
        now, count, running = 0.0, 0, True
        turns = SliceQueue(lambda: now)
        loop = asyncio.get_running_loop()

        def others() -> None:
            nonlocal now, count
            now, count = now + others_s, count + 1
            if running:
                loop.call_soon(others)

        loop.call_soon(others)
        await turns.wait()
        before = count
        await turns.wait()
        running = False
        assert count - before == between

    asyncio.run(story())


@pytest.mark.parametrize(
    ("others_s", "given"),
    [
        (0.0, SLICE_S),
        (SLICE_S / 100, SLICE_S),
        (0.002, 0.002),
        (LONGEST_SLICE_S, LONGEST_SLICE_S),
        (1, LONGEST_SLICE_S),
    ],
)
@pytest.mark.parametrize("called", [False, True])
def test_a_slice_is_as_long_as_the_others_had_the_loop(others_s: float, given: float, called: bool) -> None:
    """Within bounds: work in slices has half of a busy loop, and nobody waits long for it on an idle one."""

    async def story() -> None:
        now = 0.0
        times = iter([0.0])  # the wait begins; after it the others have worked
        one = TimeSlice(lambda: now, SliceQueue(lambda: next(times, others_s)))
        begun = asyncio.Event()
        if called:
            one.call_in_turn(begun.set)
            await begun.wait()
        else:
            await one.wait_for_turn()
        step, steps = given / 1000, 0
        while not one.spent():
            now, steps = now + step, steps + 1
        assert steps * step == pytest.approx(given, rel=0.01)

    asyncio.run(story())


def test_turns_come_in_order() -> None:
    async def story() -> None:
        turns, order = SliceQueue(WorkClock().now), []

        async def work(name: str) -> None:
            for _ in range(3):
                await turns.wait()
                order.append(name)

        await asyncio.gather(work("a"), work("b"), work("c"))
        assert order == list("abcabcabc")

    asyncio.run(story())


def test_one_that_is_cancelled_holds_up_nobody() -> None:
    async def story() -> None:
        turns = SliceQueue(WorkClock().now)
        first, second, third = (asyncio.ensure_future(turns.wait()) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.wait_for(third, 5)

    asyncio.run(story())
