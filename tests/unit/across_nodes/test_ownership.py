"""Whether a log is this node's still: asked of the store, together by those who ask meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.shared.ownership import Ownership
from storage.shared.store import FoundLog, Incarnation, StoreUnreachable
from tests.unit.across_nodes.rig import ME, OTHER, SlowStore, turns

TOPIC_ID = bytes(15) + b"t"


class Store(SlowStore):
    """What it answers is of the moment in which it was asked."""

    async def look(self, who: Incarnation, topic_id: bytes, index: int, *, with_kept: bool) -> FoundLog | None:
        self.looks += 1
        found = None if self.is_away else await super().look(who, topic_id, index, with_kept=with_kept)
        await self.answers.wait()
        if self.is_away:
            raise StoreUnreachable("away")
        return found


class World:
    async def begin(self) -> "World":
        self.store = Store()
        self.who, self.other = await self.store.join(ME, b""), await self.store.join(OTHER, b"")
        self.log: Any = type("Log", (), {})()
        self.log.owned = await self.store.claim(self.who, TOPIC_ID, 0, 3)
        self.ownership = Ownership(self.store, self.who, lambda work: asyncio.ensure_future(work))
        return self

    def ask(self) -> "asyncio.Future[bool]":
        return asyncio.ensure_future(self.ownership.of(self.log, TOPIC_ID, 0))


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def tell() -> None:
        world = await World().begin()
        await story(world)
        await turns()
        assert not world.ownership._next and not world.ownership._asking

    asyncio.run(tell())


def test_a_log_is_no_longer_ours_once_another_has_claimed_it() -> None:
    async def story(world: World) -> None:
        assert await world.ask()
        await world.store.claim(world.other, TOPIC_ID, 0, 4)
        assert not await world.ask()
        await world.store.claim(world.who, TOPIC_ID, 0, 5)
        assert not await world.ask(), "it is this node's again, under another epoch: that is another log's matter"

    told(story)


@pytest.mark.parametrize("what", ["away", "fenced", "gone"])
def test_who_cannot_be_sure_says_no(what: str) -> None:
    async def story(world: World) -> None:
        if what == "away":
            world.store.is_away = True
        elif what == "fenced":
            await world.store.fence(world.other, world.who, 0)
        else:
            await world.store.forget(world.other, TOPIC_ID)
        assert not await world.ask()

    told(story)


def test_who_asks_meanwhile_shares_the_next_question_and_not_this_one() -> None:
    """The question under way has been answered by the store before somebody else claimed the log."""

    async def story(world: World) -> None:
        world.store.answers.clear()
        first = world.ask()
        await turns()
        await world.store.claim(world.other, TOPIC_ID, 0, 4)
        later = [world.ask() for _ in range(5)]
        await turns()
        assert world.store.looks == 1
        world.store.answers.set()
        assert await first
        assert [await one for one in later] == 5 * [False]
        assert world.store.looks == 2

    told(story)


def test_who_gives_up_takes_no_answer_from_others() -> None:
    async def story(world: World) -> None:
        world.store.answers.clear()
        first, second = world.ask(), world.ask()
        await turns()
        first.cancel()
        world.store.answers.set()
        assert await second

    told(story)
