"""Answers of a shard: a few at once, thousands in turns, always in order."""

import asyncio
from typing import Any

import pytest

from broker.coordination.coordinators import FutureTicket
from broker.coordination.releases import AT_ONCE, LARGEST_LOT, TURNS_OF_A_LOT, Releases
from broker.process.time_slice import SLICE_S, TimeSlice
from tests.harness.turns import CallsPerTurn
from tests.harness.work_clock import WorkClock

MANY = 3_000


class Clock(WorkClock):
    """Each answer that is written takes a tenth of a millisecond."""

    def write(self) -> None:
        self._now += 0.0001


def test_few_answers_are_there_at_once() -> None:
    async def story() -> None:
        releases, results = Releases(TimeSlice(WorkClock().now)), list[int]()
        for number in range(AT_ONCE):
            releases.put(results.append, number)
        assert results == list(range(AT_ONCE))
        await asyncio.sleep(0)
        releases.put(results.append, AT_ONCE)
        assert results[-1] == AT_ONCE, "another turn, another few"

    asyncio.run(story())


def test_thousands_of_responses_are_released_in_slices_and_in_order() -> None:
    async def story() -> None:
        clock, written = Clock(), list[int]()
        write = CallsPerTurn(lambda number: (written.append(number), clock.write()))
        releases = Releases(TimeSlice(clock.now))

        async def handler(number: int) -> None:
            ticket = FutureTicket(releases)
            tickets.append(ticket)
            answer: Any = await ticket.future
            write(answer)

        tickets: list[FutureTicket] = []
        handlers = [asyncio.ensure_future(handler(number)) for number in range(MANY)]
        await asyncio.sleep(0)
        for number, ticket in enumerate(tickets):
            ticket.release(number)
        await asyncio.gather(*handlers)
        assert written == list(range(MANY))
        assert write.most <= 100, "ten milliseconds in a turn"

    asyncio.run(story())


def test_what_comes_later_does_not_overtake() -> None:
    async def story() -> None:
        wrong = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        releases, results = Releases(TimeSlice(WorkClock().now)), list[int]()
        for number in range(MANY):
            releases.put(results.append, number)
            if number % 500 == 0:
                await asyncio.sleep(0)
        while len(results) < MANY:
            await asyncio.sleep(0)
        assert results == list(range(MANY))
        for _ in range(10):
            await asyncio.sleep(0)
        releases.put(results.append, MANY)
        assert results[-1] == MANY, "nobody waits any more"
        assert not wrong

    asyncio.run(story())


def test_nobody_is_forgotten_when_the_node_stops() -> None:
    async def story() -> None:
        releases, results = Releases(TimeSlice(WorkClock().now)), list[int]()
        for number in range(100):
            releases.put(results.append, number)
        releases.flush()
        assert results == list(range(100))
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(story())


@pytest.mark.parametrize("cancelled", [0, 50])
def test_a_cancelled_wait_does_not_delay_others(cancelled: int) -> None:
    async def story() -> None:
        releases = Releases(TimeSlice(WorkClock().now))
        tickets = [FutureTicket(releases) for _ in range(100)]
        tickets[cancelled].future.cancel()
        for number, ticket in enumerate(tickets):
            ticket.release(number)
        rest = [ticket.future for number, ticket in enumerate(tickets) if number != cancelled]
        assert await asyncio.gather(*rest) == [number for number in range(100) if number != cancelled]

    asyncio.run(story())


def sizes_of_lots(took: list[float], hops: int = 0) -> list[int]:
    """How many answers each lot has where they took so many seconds, and no time from then on. `hops`: the time passes
    so many turns of the loop after the answer was delivered."""
    lots, now = [0], [0.0]

    class Counted(TimeSlice):
        def call_in_turn(self, callback: Any) -> None:
            lots.append(0)
            super().call_in_turn(callback)

    def work(seconds: float, left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(work, seconds, left - 1)
        else:
            now[0] += seconds

    def deliver(_: int) -> None:
        lots[-1] += 1
        if lots[-1] == 1 and 2 <= len(lots) <= len(took) + 1:
            work(took[len(lots) - 2], hops)

    async def story() -> None:
        releases = Releases(Counted(lambda: now[0]))
        for number in range(AT_ONCE + MANY):
            releases.put(deliver, number)
        while sum(lots) < AT_ONCE + MANY:
            await asyncio.sleep(0)

    asyncio.run(story())
    return lots[1:]


@pytest.mark.parametrize(
    ("took", "sizes"),
    [
        ([], [16, 32, 64, 128, 256, 512, LARGEST_LOT]),
        ([SLICE_S], [16, 16, 32]),
        ([SLICE_S * 1.01], [16, 8, 16]),
        ([SLICE_S / 2], [16, 16, 32]),
        ([SLICE_S * 0.49], [16, 32, 64]),
        ([SLICE_S * 2] * 6, [16, 8, 4, 2, 1, 1, 1, 2]),
    ],
)
def test_a_lot_is_as_large_as_the_one_before_it_was_quick(took: list[float], sizes: list[int]) -> None:
    assert sizes_of_lots(took)[: len(sizes)] == sizes


def test_no_lot_is_larger_than_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.coordination.releases.LARGEST_LOT", 100)
    assert sizes_of_lots([])[:5] == [16, 32, 64, 100, 100]


def test_what_a_lot_wakes_belongs_to_its_time() -> None:
    """An answer is written two turns after it was delivered; what comes later is the time of somebody else."""
    slow = SLICE_S * 2
    assert sizes_of_lots([slow], TURNS_OF_A_LOT - 1)[:2] == [16, 8]
    assert sizes_of_lots([slow], TURNS_OF_A_LOT + 1)[:2] == [16, 32]
