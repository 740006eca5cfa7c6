"""A sweep of any number of connections lets others have their turns."""

import asyncio

from broker.network.sweeping import in_slices
from broker.process.time_slice import SLICE_S, TimeSlice

LOOK_S = 0.001
MANY = 1000


def test_a_sweep_gives_way_after_its_slice_and_comes_to_its_end() -> None:
    now_s = 0.0
    turns: list[int] = [0]
    looked: list[int] = []

    def look(number: int) -> None:
        nonlocal now_s
        now_s += LOOK_S
        looked.append(number)
        turns[-1] += 1

    async def story() -> None:
        done = asyncio.Event()
        in_slices(map(look, range(MANY)), TimeSlice(lambda: now_s), done.set)
        while not done.is_set():
            turns.append(0)
            await asyncio.sleep(0)

    asyncio.run(story())
    assert looked == list(range(MANY))
    assert max(turns) * LOOK_S <= SLICE_S + LOOK_S and len(turns) > MANY * LOOK_S / SLICE_S / 2
