"""Long polls: woken by what they wait for, and by nothing else."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from broker.api.waiting import Movements, WaitingRoom


class Source:
    """Something that moves."""

    def __init__(self) -> None:
        self.watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        self.watchers.append(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self.watchers.remove(callback)

    def move(self) -> None:
        for watcher in list(self.watchers):
            watcher()


class Attempts:
    """Responds when the test says; counts its calls."""

    def __init__(self) -> None:
        self.answer: str | None = None
        self.asked: list[bool] = []

    def __call__(self, last: bool) -> str | None:
        self.asked.append(last)
        return "what there is" if last else self.answer


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_wait_ends_when_enough_has_come() -> None:
    async def story() -> None:
        room, source, attempts = WaitingRoom(), Source(), Attempts()
        wait = room.park([source], attempts, 60_000)
        source.move()
        await turns()
        assert not wait.done()
        attempts.answer = "enough"
        source.move()
        assert await wait == "enough"
        assert len(room) == 0 and not source.watchers

    run(story())


def test_many_moves_in_one_turn_are_looked_at_once() -> None:
    async def story() -> None:
        room, source, attempts = WaitingRoom(), Source(), Attempts()
        wait = room.park([source], attempts, 60_000)
        for _ in range(100):
            source.move()
        await turns()
        assert attempts.asked == [False]
        wait.cancel()

    run(story())


def test_what_moves_while_it_is_looked_at_is_looked_at_again() -> None:
    async def story() -> None:
        room, source = WaitingRoom(), Source()
        asked: list[bool] = []

        def attempt(last: bool) -> str | None:
            asked.append(last)
            if len(asked) > 1:
                return "what there is"
            source.move()
            return None

        wait = room.park([source], attempt, 60_000)
        source.move()
        await turns()
        assert asked == [False, False] and wait.done()

    run(story())


def test_movements_count_from_the_moment_each_is_watched() -> None:
    """Nobody is told of one that never was, and nobody misses one from before it waited."""
    still, moving = Source(), Source()
    told: list[str] = []
    with Movements() as movements:
        movements.add(still)
        movements.add(moving)
        movements.watch(lambda: told.append("first"))
        assert not told
        moving.move()
        assert told == ["first"]
        movements.unwatch(lambda: None)
        moving.move()
        assert told == ["first"]
        movements.watch(lambda: told.append("late"))
        assert told == ["first", "late"]
        assert (len(still.watchers), len(moving.watchers)) == (1, 1)
    assert not still.watchers and not moving.watchers


def test_a_wait_times_out_without_polling() -> None:
    async def story() -> None:
        room, source, attempts = WaitingRoom(), Source(), Attempts()
        assert await room.park([source], attempts, 1) == "what there is"
        assert attempts.asked == [True]
        assert not source.watchers

    run(story())


def test_cancelling_leaves_nothing_behind() -> None:
    async def story() -> None:
        room, sources = WaitingRoom(), [Source(), Source()]
        wait = room.park(sources, Attempts(), 60_000)
        sources[0].move()
        wait.cancel()
        await turns()
        assert len(room) == 0 and not sources[0].watchers and not sources[1].watchers

    run(story())


def test_closing_the_room_answers_everybody_and_lets_nobody_wait_again() -> None:
    async def story() -> None:
        room, source = WaitingRoom(), Source()
        early = room.park([source], Attempts(), 60_000)
        room.close()
        assert await early == "what there is"
        assert await room.park([source], Attempts(), 60_000) == "what there is"

    run(story())


def test_a_bug_in_an_attempt_reaches_the_waiting_caller() -> None:
    async def story() -> None:
        def broken(last: bool) -> str | None:
            raise ZeroDivisionError

        room, source = WaitingRoom(), Source()
        wait = room.park([source], broken, 60_000)
        source.move()
        await turns()
        assert isinstance(wait.exception(), ZeroDivisionError)
        assert len(room) == 0

    run(story())
