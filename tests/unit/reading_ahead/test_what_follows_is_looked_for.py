"""Which runs follow is asked of the store where it is not known: rarely, in turn with what is brought, and of use only
where nobody has gone on meanwhile.
"""

import asyncio

import pytest

from broker.shared import bringing
from broker.shared.reading.ahead import AT_ONCE
from storage.shared.shared_log import SharedLog
from storage.shared.store import StoreRefused, StoreUnreachable
from tests.unit.across_nodes.rig import turns
from tests.unit.reading_ahead.rig import SIZE, World, told

FIRST = 10
"""Where a reader begins that looks for what follows; all others read before it."""


@pytest.fixture(autouse=True)
def nothing_is_known_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who brings what was asked for learns of no other run."""
    monkeypatch.setattr(bringing, "RUNS_AT_ONCE", 1)


async def waiting_to_look(world: World) -> SharedLog:
    """A log whose reader reads on while others hold all ways to the store: what follows cannot be looked for yet."""
    world.store.holds = lambda offset: offset == 2
    world.store.answers.clear()
    for _ in range(AT_ONCE):
        assert await world.read(await world.log(40), 0, 2) == 2
    await turns()
    assert world.store.under_way == AT_ONCE
    log = await world.log(40)
    assert await world.read(log, FIRST, 2) == FIRST + 2
    await world.settle()
    assert looked(world, log) == [10, 11]
    return log


def looked(world: World, log: SharedLog) -> list[int]:
    return [offset for log_id, offset in world.store.looked if log_id == log.owned.log_id]


def asked(world: World) -> list[int]:
    return [offset for offset in world.store.asked if offset >= FIRST]


def test_it_is_looked_for_and_brought() -> None:
    async def story(world: World) -> None:
        log = await waiting_to_look(world)
        world.store.answers.set()
        await world.settle()
        assert looked(world, log) == [10, 11, 12]
        assert asked(world) == [10, 11, 12]
        for offset in range(12, 17):
            assert await world.read(log, offset) == offset + 1
            await world.settle()
        assert looked(world, log) == [10, 11, 12], "what is known by now is not looked for again"

    told(story)


def test_it_is_looked_for_once_at_a_time_and_not_used_where_somebody_has_gone_on() -> None:
    async def story(world: World) -> None:
        log = await waiting_to_look(world)
        assert await world.read(log, 12, 2) == 14
        assert looked(world, log) == [10, 11, 12, 13], "who waits goes first"
        world.store.answers.set()
        await world.settle()
        assert looked(world, log) == [10, 11, 12, 13, 12]
        assert asked(world) == [10, 11, 12, 13]
        assert world.node.held_bytes == AT_ONCE * SIZE, "that of the others"
        assert await world.read(log, 14) == 15
        await world.settle()
        assert looked(world, log)[5:] == [14, 15]
        assert asked(world) == [10, 11, 12, 13, 14, 15, 16, 17, 18]

    told(story)


def test_what_was_found_and_is_being_brought_for_who_asked_is_not_ahead_any_more() -> None:
    async def story(world: World) -> None:
        log = await waiting_to_look(world)
        answers_of_others, world.store.answers = world.store.answers, asyncio.Event()
        world.store.holds = lambda offset: offset == 12
        reading = asyncio.ensure_future(world.read(log, 12))
        await turns()
        answers_of_others.set()
        await turns()
        assert asked(world) == [10, 11, 12, 12], "it was found when it had been asked for"
        world.store.answers.set()
        assert await reading == 13
        await world.settle()
        assert asked(world)[4:] == [13, 14]
        assert world.node.held_bytes == (AT_ONCE + 2) * SIZE

    told(story)


def test_nothing_is_looked_for_where_the_log_is_gone() -> None:
    async def story(world: World) -> None:
        log = await waiting_to_look(world)
        log.abandon()
        world.store.answers.set()
        await world.settle()
        assert looked(world, log) == [10, 11]
        assert asked(world) == [10, 11]

    told(story)


@pytest.mark.parametrize(
    "error", [StoreUnreachable("away"), StoreRefused("of another cluster")], ids=["away", "refuses"]
)
def test_a_store_that_cannot_be_asked_what_follows_is_asked_with_the_next_stretch(error: Exception) -> None:
    async def story(world: World) -> None:
        log = await waiting_to_look(world)
        world.store.cannot_look = error
        world.store.answers.set()
        await world.settle()
        assert looked(world, log) == [10, 11, 12]
        world.store.cannot_look = None
        assert await world.read(log, 12) == 13
        await world.settle()
        assert looked(world, log)[3:] == [12, 13]
        assert asked(world) == [10, 11, 12, 13, 14]

    told(story)


def test_nothing_is_looked_for_where_nothing_may_be_held() -> None:
    async def story(world: World) -> None:
        log = await world.log(40)
        for offset in range(10, 14):
            await world.read(log, offset)
            await world.settle()
        assert looked(world, log) == [10, 11, 12, 13]

    told(story, limit_bytes=0)
