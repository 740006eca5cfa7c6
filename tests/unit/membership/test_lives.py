"""What a node says and does in the background for as long as it lives."""

import asyncio
from typing import Any, cast

import pytest

from broker.config.broker_config import BrokerConfig
from broker.membership import life
from broker.membership.life import COLLECT_EACH, FORGOTTEN_AT_ONCE, SharedLife
from broker.process.time_slice import TimeSlice
from storage.shared.store import Fenced, Incarnation, StartRefused, StoreRefused

WHO = Incarnation(1, 1)


class Store:
    """Hears, and removes what is `dead` where nobody has to wait for it."""

    keeps_apart = False

    def __init__(self) -> None:
        self.heard = 0
        self.dead = 0
        self.collected: list[int] = []
        self.can_collect = asyncio.Event()
        self.problem: BaseException | None = None

    async def heartbeat(self, who: Incarnation) -> None:
        self.heard += 1
        if self.problem is not None:
            raise self.problem

    async def collect(self, older_ms: int, limit: int) -> int:
        await self.can_collect.wait()
        removed = min(limit, self.dead)
        self.dead -= removed
        self.collected.append(removed)
        return removed

    async def cluster_id(self, wanted: str | None, drawn: str) -> str:
        return drawn

    async def open(self) -> None:
        """It is there."""

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        return WHO


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.failed: list[BaseException] = []
        environment: Any = _Environment()
        config = BrokerConfig({"broker.heartbeat.interval.ms": "1"})
        own = asyncio.ensure_future
        self.life = SharedLife(cast(Any, self.store), config, environment, own=cast(Any, own), fail=self.failed.append)

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.001)


class _Environment:
    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def time_slice(self) -> TimeSlice:
        return TimeSlice(lambda: 0.0)


def test_a_node_is_heard_while_much_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World()
        world.store.dead = 2 * FORGOTTEN_AT_ONCE + 1
        await world.life.begin({})
        await world.until(lambda: world.store.heard > 3 * COLLECT_EACH)
        assert not world.store.collected
        monkeypatch.setattr(life, "COLLECT_EACH", 1_000_000)  # the next time never comes
        world.store.can_collect.set()
        await world.until(lambda: len(world.store.collected) >= 3)
        assert world.store.collected[:3] == [FORGOTTEN_AT_ONCE, FORGOTTEN_AT_ONCE, 1]
        world.life.abandon()
        assert not world.failed

    asyncio.run(story())


@pytest.mark.parametrize("problem", [Fenced("it is over"), StoreRefused("it is another"), ValueError("a bug")])
def test_a_node_that_cannot_say_that_it_lives_ends_and_says_why(problem: BaseException) -> None:
    async def story() -> None:
        world = World()
        await world.life.begin({})
        world.store.problem = problem
        await world.until(lambda: world.failed)
        assert str(problem) in str(world.failed[0])
        world.life.abandon()

    asyncio.run(story())


def test_a_start_that_the_store_refuses_has_failed_of_what_it_was_told() -> None:
    """Nothing is wrong with the storage, and who starts it again need not try."""

    async def story() -> None:
        world = World()

        async def refuse(*asked: object) -> None:
            raise StoreRefused("it is another's")

        world.store.open = refuse  # type: ignore[method-assign]
        with pytest.raises(StartRefused, match="it is another's"):
            await world.life.open()

    asyncio.run(story())
