"""Whom a node judges when it looks at the others, and what a controller goes on with that was not done."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from broker.coordination.coordinators import CoordinatorError
from broker.membership.about import About
from broker.membership.members import Membership
from protocol.errors import ErrorCode
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import Fenced, Incarnation, StoreUnreachable
from tests.unit.cluster.cluster_rig import ClusterRig, topic

SILENT_MS = 9_000
AWAY_MS = 60_000
ABOUT = About((), None, bytes(16)).to_bytes()


class Controlling:
    """The cluster of a controller. With `loses` the answer to the next change is lost, not the change."""

    leads = True
    loses = False

    def __init__(self) -> None:
        self.rig = ClusterRig(is_alone=False)
        self.image = self.rig.machine.image

    def on_durable(self, tell: Callable[[], None]) -> None:
        """Nobody listens."""

    async def ask(self, operation: Any) -> Any:
        answer = self.rig.ask(operation)
        if self.loses:
            self.loses = False
            raise CoordinatorError(ErrorCode.NOT_CONTROLLER)
        return answer


class World:
    def __init__(self) -> None:
        self.now_ms = 0
        self.store = StoreInMemory(lambda: self.now_ms)
        self.cluster = Controlling()

    async def join(self, node_id: int) -> Incarnation:
        return await self.store.join(node_id, ABOUT)

    def membership(self, who: Incarnation) -> Membership:
        environment = SimpleNamespace(monotonic_ms=lambda: self.now_ms)
        never = cast(Any, None)
        return Membership(
            self.store,
            who,
            cast(Any, self.cluster),
            never,
            cast(Any, environment),
            silent_ms=lambda: SILENT_MS,
            own=never,
            on_lead=never,
            fail=never,
        )

    def living(self) -> tuple[int, ...]:
        return self.cluster.image.living

    def leaders(self) -> set[int]:
        return {node for one in self.cluster.image.topics.values() for node in one.leaders.nodes()}


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_who_starts_right_after_the_store_was_away_judges_nobody_who_can_be_heard_again() -> None:
    async def story() -> None:
        world = World()
        healthy, dead = await world.join(1), await world.join(2)
        world.now_ms = AWAY_MS  # The store was away, and nobody could say that it lives.
        membership = world.membership(await world.join(3))
        await membership.look()
        assert world.living() == (1, 2, 3)
        for _ in range(10):
            world.now_ms += SILENT_MS // 10
            await world.store.heartbeat(healthy)
            await membership.look()
        assert world.living() == (1, 3)
        with pytest.raises(Fenced):
            await world.store.heartbeat(dead)

    run(story())


def test_whose_last_words_a_failover_of_the_store_has_lost_is_given_the_time_to_be_heard_again() -> None:
    async def story() -> None:
        world = World()
        healthy, dead = await world.join(1), await world.join(2)
        membership = world.membership(await world.join(3))
        for _ in range(20):
            world.now_ms += SILENT_MS // 10
            await world.store.heartbeat(healthy)
            await world.store.heartbeat(dead)
            await membership.look()
        for one in (healthy, dead):
            world.store._heard_ms[one.node_id] -= SILENT_MS  # The standby stood still for so long, and is the primary.
        world.now_ms += SILENT_MS // 10
        await membership.look()
        assert world.living() == (1, 2, 3)
        for _ in range(11):
            await world.store.heartbeat(healthy)
            await membership.look()
            world.now_ms += SILENT_MS // 10
        await membership.look()
        assert world.living() == (1, 3)

    run(story())


def test_who_was_about_to_be_fenced_when_the_store_failed_over_is_given_the_time_to_be_heard_again() -> None:
    """It woke up and was heard, which this node did not see, and which was lost."""

    async def story() -> None:
        world = World()
        slow, dead = await world.join(1), await world.join(2)
        membership = world.membership(await world.join(3))
        asked: list[Incarnation] = []

        async def fence(who: Incarnation, other: Incarnation, silent_ms: int) -> bool:
            asked.append(other)
            raise StoreUnreachable("it fails over")

        with mock.patch.object(world.store, "fence", fence):
            for _ in range(12):
                world.now_ms += SILENT_MS // 10
                await membership.look()
        assert asked == [slow], "asked once, and nobody else is"
        for _ in range(8):
            world.now_ms += SILENT_MS // 10
            await world.store.heartbeat(slow)
            await membership.look()
            assert world.living() == (1, 2, 3)
        for _ in range(2):
            world.now_ms += SILENT_MS // 10
            await membership.look()
        assert world.living() == (1, 3)
        assert dead.node_id == 2

    run(story())


def test_partitions_of_a_node_that_has_left_are_led_by_others_though_an_answer_was_lost() -> None:
    async def story() -> None:
        world = World()
        first, second = await world.join(1), await world.join(2)
        membership = world.membership(first)
        await membership.look()
        world.cluster.rig.create(topic("t", 4))
        assert world.leaders() == {1, 2}
        await world.store.leave(second)
        world.cluster.loses = True
        with pytest.raises(CoordinatorError):
            await membership.look()
        assert world.living() == (1,) and world.leaders() == {1, 2}
        await membership.look()
        assert world.leaders() == {1}

    run(story())


def test_partitions_of_a_node_that_has_come_again_are_led_anew_though_an_answer_was_lost() -> None:
    async def story() -> None:
        world = World()
        membership = world.membership(await world.join(1))
        await world.join(2)
        await membership.look()
        world.cluster.rig.create(topic("t", 4))
        await world.join(2)
        world.cluster.loses = True
        with pytest.raises(CoordinatorError):
            await membership.look()
        await membership.look()
        image = world.cluster.image
        epoch = image.brokers[2].registration.broker_epoch
        assert {held for node, held in image.topics["t"].leaders if node == 2} == {epoch}

    run(story())
