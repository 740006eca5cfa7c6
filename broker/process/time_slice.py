"""Work in slices: how long somebody has had the loop, and a turn for the others.

Rule. No turn of the loop is longer than 20 ms, whatever arrives. Work whose size a client or a log chooses asks between
two of its steps whether its slice is `spent`, and if so waits for its next turn. Slices are of time and never of bytes
or counts, which say little about time. What was read of shared state before the wait is asked again after it.

Those who wait have their turns one after the other, in order, with `FREE_TURNS` of the loop in between: many of them
together do not make a turn longer, and an answer that takes several turns waits for one of them, not for one in each.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

SLICE_S: Final = 0.0015
"""How long somebody who waits for nothing but the loop may have to wait for a piece of such work."""

LONGEST_SLICE_S = 0.005
"""On a busy loop a slice is as long as the others had the loop before it, up to this: their turns are long, too."""

FREE_TURNS = 4
"""Between two slices. What was synced takes so many until it is answered: the future, the group commit, the request,
the connection. Without them it waited for a slice in each. They cost 5 µs."""

T = TypeVar("T")
R = TypeVar("R")


class SliceQueue:
    """The tasks that wait for a turn of the loop, in order; `clock` as that of `TimeSlice`. A turn comes with the
    seconds that it may take: as long as the others had the loop before it, within `SLICE_S` and `LONGEST_SLICE_S`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[float]] = deque()

    async def wait(self) -> float:
        """Until every task that waited before has had a turn; the seconds that this one may take."""
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._append(turn)
        return await turn

    def call(self, callback: Callable[[float], None]) -> None:
        """The same for callbacks."""
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        turn.add_done_callback(lambda given: callback(given.result()))
        self._append(turn)

    def _append(self, turn: "asyncio.Future[float]") -> None:
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._rest(FREE_TURNS, self._clock())

    def _rest(self, turns: int, since: float) -> None:
        """Turns in which nobody who waits here works, then one of them does. On a busy loop they end when the others
        have had as long as a slice is: who waits here is not to come too short."""
        loop = asyncio.get_running_loop()
        if turns and self._clock() - since < SLICE_S:
            loop.call_soon(self._rest, turns - 1, since)
        else:
            loop.call_soon(self._give, since)

    def _give(self, since: float) -> None:
        turn = self._waiting[0]
        if not turn.done():  # one who was cancelled needs none
            turn.set_result(min(max(self._clock() - since, SLICE_S), LONGEST_SLICE_S))
        self._waiting.popleft()
        if self._waiting:
            self._rest(FREE_TURNS, self._clock())


class TimeSlice:
    """A stretch of time on the loop, begun now; `clock` gives seconds and never goes back."""

    __slots__ = ("_end", "_turns", "clock")

    def __init__(self, clock: Callable[[], float], turns: SliceQueue | None = None) -> None:
        self.clock = clock
        self._turns = turns or SliceQueue(clock)
        self._end = clock() + SLICE_S

    def spent(self) -> bool:
        """Whether the others are to have a turn."""
        return self.clock() >= self._end

    async def wait_for_turn(self) -> None:
        """Let all other tasks have a turn, then begin a new slice."""
        given = await self._turns.wait()
        self._end = self.clock() + given

    async def give_way(self) -> None:
        """Where others are to have a turn: between two elements that may hold nothing themselves."""
        if self.spent():
            await self.wait_for_turn()

    async def each(self, make: Callable[[T], R], elements: Iterable[T]) -> list[R]:
        """What `make` makes of each of them, with turns for the others in between."""
        made: list[R] = []
        for element in elements:
            made.append(make(element))
            if self.spent():
                await self.wait_for_turn()
        return made

    async def all(self, elements: Iterable[T]) -> list[T]:
        """All of them, where it takes time to come by the next one."""
        return await self.each(_itself, elements)

    def call_in_turn(self, callback: Callable[[], None]) -> None:
        """The same for work that is not awaited: it goes on in `callback`."""

        def begin(given: float) -> None:
            self._end = self.clock() + given
            callback()

        self._turns.call(begin)


def _itself(element: T) -> T:
    return element
