"""Which partitions open here: what the log gives to this node, and not what the store has for another's."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from broker.config.topic_config import TopicConfig
from broker.coordination.across_nodes.led_partitions import LedPartitions
from broker.partitions.topic import Topic
from protocol.errors import ErrorCode
from tests.unit.across_nodes.rig import ME, OTHER, turns

ID = b"t" * 16


class World:
    def __init__(self, *, is_alone: bool = False) -> None:
        self.leaders: dict[int, tuple[int, int]] = {}
        self.topic = Topic("t", ID, TopicConfig(), lambda index: cast(Any, f"closed {index}"))
        self.to_open = SimpleNamespace(
            on_lost=None, add=lambda topic: None, wait_until_these_are_open=self._open, at_a_time=2
        )
        self.opened: list[tuple[int, int]] = []
        self.given_up: list[int] = []
        self.busy = 0
        self.damaged: set[int] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way: set[int] = set()
        self.most_under_way = 0
        nodes: Any = SimpleNamespace(node_id=ME, is_alone=is_alone, leader=lambda topic_id, index: self.leaders[index])
        store: Any = SimpleNamespace(release=self._release)
        self.led = LedPartitions(
            nodes,
            cast(Any, self.to_open),
            store,
            lambda topic_id: self.topic if topic_id == ID else None,
            asyncio.ensure_future,  # type: ignore[arg-type]
        )
        self.led.on_given_up.append(lambda topic, index: self.given_up.append(index))

    def _release(self, log: Any) -> bool:
        self.busy -= 1
        return self.busy < 0

    async def _open(self, wanted: Any) -> None:
        for topic, index in wanted:
            assert topic is self.topic
            await self._open_one(index)

    async def _open_one(self, index: int) -> None:
        self.most_under_way = max(self.most_under_way, len(self.under_way) + 1)
        self.under_way.add(index)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.under_way.remove(index)
        epoch = self.leaders[index][1]
        self.opened.append((index, epoch))
        self.topic.partitions.put(index, cast(Any, self._partition(index, epoch)))

    def _partition(self, index: int, epoch: int) -> SimpleNamespace:
        one = SimpleNamespace(topic="t", topic_id=ID, index=index, leader_epoch=epoch, discarded=False)
        one.offline = "damaged" if index in self.damaged else None
        one.gone, one.log, one.thrown_away = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, object(), 0

        def discard() -> None:
            one.thrown_away += 1

        one.discard = discard
        return one

    async def assign(self, leaders: dict[int, tuple[int, int]]) -> None:
        known = len(self.topic.partitions)
        self.leaders |= leaders
        self.topic.partitions.grow(max(known, *(index + 1 for index in leaders)))
        self.led.assign(self.topic, leaders)
        await turns()

    def here(self) -> dict[int, int]:
        found = {index: self.topic.partitions.here(index) for index in range(len(self.topic.partitions))}
        return {index: one.leader_epoch for index, one in found.items() if one is not None}


def test_what_is_given_to_this_node_opens_and_nothing_else() -> None:
    async def story() -> None:
        world = World()
        await world.assign({0: (ME, 4), 1: (OTHER, 4), 2: (-1, 4), 3: (ME, 5)})
        assert world.here() == {0: 4, 3: 5} and world.topic.partitions.first_closed() is None
        assert [world.topic.partitions.is_closed(index) for index in range(4)] == [False] * 4

    asyncio.run(story())


def test_a_partition_that_moves_is_given_up_and_comes_back_under_a_later_epoch() -> None:
    async def story() -> None:
        world = World()
        await world.assign({0: (ME, 4), 1: (ME, 4)})
        before: Any = world.topic.partitions.here(0)
        await world.assign({0: (OTHER, 6)})
        assert world.here() == {1: 4} and world.given_up == [0]
        assert (before.gone, before.discarded, before.thrown_away) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, 1)
        await world.assign({0: (ME, 7)})
        assert world.here() == {0: 7, 1: 4}
        await world.assign({0: (ME, 7), 1: (ME, 4)})
        assert world.given_up == [0] and world.opened == [(0, 4), (1, 4), (0, 7)], "nothing else has changed"

    asyncio.run(story())


def test_who_waits_for_what_is_not_to_be_opened_any_more_is_told() -> None:
    """A node that waited for the coordinators of all that it led would wait for ever."""

    async def story() -> None:
        world = World()
        world.gate.clear()
        await world.assign({0: (ME, 4)})
        assert world.here() == {} and world.given_up == []
        await world.assign({0: (OTHER, 6)})
        assert world.given_up == [0]
        await world.assign({0: (ME, 7)})
        on_lost: Any = world.to_open.on_lost
        on_lost(world.topic, 0, 7)
        assert world.given_up == [0, 0]
        world.gate.set()
        await turns()

    asyncio.run(story())


def test_a_later_epoch_of_the_same_node_opens_anew() -> None:
    """Somebody else may have written in between."""

    async def story() -> None:
        world = World()
        await world.assign({0: (ME, 4)})
        await world.assign({0: (ME, 6)})
        assert world.here() == {0: 6} and world.given_up == [0]

    asyncio.run(story())


def test_what_the_store_has_for_anothers_is_taken_under_a_later_epoch_only() -> None:
    async def story() -> None:
        world = World()
        await world.assign({0: (ME, 4), 1: (ME, 4)})
        lost: Any = world.topic.partitions.here(0)
        world.led.lost(lost)
        assert world.here() == {1: 4} and lost.thrown_away == 1
        world.led.lost(lost)
        assert lost.thrown_away == 1, "it was given up before"
        await world.assign({0: (ME, 4)})
        assert world.here() == {1: 4}
        on_lost: Any = world.to_open.on_lost
        world.topic.partitions.leave(1)
        on_lost(world.topic, 1, 4)
        await world.assign({0: (ME, 5), 1: (ME, 4)})
        assert world.here() == {0: 5}

    asyncio.run(story())


def test_a_claim_that_was_refused_under_an_earlier_epoch_says_nothing_of_the_later_one() -> None:
    async def story() -> None:
        world = World()
        world.gate.clear()
        await world.assign({0: (ME, 4)})
        await world.assign({0: (ME, 6)})  # Given to this node again, while it was still claimed under the old epoch.
        on_lost: Any = world.to_open.on_lost
        on_lost(world.topic, 0, 4)
        assert world.topic.partitions.is_closed(0), "it is to be opened here"
        world.gate.set()
        await turns()
        assert world.here() == {0: 6}

    asyncio.run(story())


def test_what_follows_a_damaged_partition_hears_that_it_is_given_up() -> None:
    """Who coordinates over it has to begin anew where it comes back whole."""

    async def story() -> None:
        world = World()
        world.damaged = {0}
        await world.assign({0: (ME, 4)})
        offline: Any = world.topic.partitions.present()[0]
        await world.assign({0: (ME, 5)})
        assert world.given_up == [0]
        assert (offline.gone, offline.thrown_away) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0), "it has no log to leave"

    asyncio.run(story())


def test_as_many_open_in_the_background_as_the_store_allows_and_in_order() -> None:
    """So that one that a request waits for has its turn behind these few."""

    async def story() -> None:
        world = World()
        world.gate.clear()
        await world.assign(dict.fromkeys(range(20), (ME, 4)))
        assert world.under_way == {0, 1}
        world.gate.set()
        await turns()
        assert [index for index, _ in world.opened] == list(range(20))
        assert world.most_under_way == 2
        await world.assign({0: (ME, 5)})
        assert world.here()[0] == 5, "and again"

    asyncio.run(story())


def test_what_was_lost_of_a_deleted_topic_is_forgotten() -> None:
    async def story() -> None:
        world = World()
        await world.assign({0: (ME, 4), 1: (ME, 4)})
        for index in (0, 1):
            world.led.lost(cast(Any, world.topic.partitions.here(index)))
        await world.assign({0: (ME, 4)})
        assert world.here() == {}
        world.led.forget(world.topic)
        await world.assign({0: (ME, 4)})
        assert world.here() == {0: 4}

    asyncio.run(story())


def test_a_log_that_is_being_committed_is_released_later() -> None:
    async def story() -> None:
        world = World()
        await world.assign({0: (ME, 4)})
        world.busy = 2
        await world.assign({0: (OTHER, 5)})
        assert world.busy <= 1, "it was asked at once"
        while world.busy >= 0:
            await asyncio.sleep(0.001)

    asyncio.run(story())


def test_a_node_that_is_alone_gives_up_nothing() -> None:
    async def story() -> None:
        world = World(is_alone=True)
        await world.assign({0: (OTHER, 4)})
        assert world.topic.partitions.first_closed() == 0 and world.opened == []

    asyncio.run(story())
