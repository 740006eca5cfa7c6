"""Each log that is opened: what becomes of it, of the files that it was opened with, and of those who wait for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.config.topic_config import TopicConfig
from broker.coordination.opening_logs import LogsToOpen
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from storage.files import GivenUp
from storage.log import StorageFailed
from storage.shared.store import NotOwned
from tests.harness.work_clock import WorkClock

CONFIG = TopicConfig()
AT_A_TIME = 2


class World:
    """A node with topics, whose logs open when they are let. What happens to a log is noted with its place."""

    at_a_time = AT_A_TIME

    def __init__(self, *, in_memory: bool = False, **topics: int) -> None:
        self.noted: list[tuple[str, str]] = []
        self.topics = {name: self._topic(name, count) for name, count in topics.items()}
        self.standing = set(topics)
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = self.most_under_way = 0
        self.failures: dict[str, Exception] = {}
        self.offline: object = None
        self.published = 0
        self.preparing: asyncio.Event | None = None
        """Until when logs are prepared, where that takes time."""
        self.epoch = 0
        self.owned_elsewhere = -1
        """Up to which epoch another node has them."""
        self._in_memory = in_memory
        environment = SimpleNamespace(run_beside=self._beside, time_slice=lambda: TimeSlice(WorkClock().now))
        self.logs = LogsToOpen(
            cast(Any, self), cast(Any, environment), stands=lambda topic: topic.name in self.standing
        )
        self.logs.on_opened.append(lambda *_: self._opened())
        for topic in self.topics.values():
            self.logs.add(topic)

    def _topic(self, name: str, count: int) -> Topic:
        topic = Topic(name, name.encode() * 16, CONFIG, lambda index: cast(Any, f"closed {index}"))
        topic.partitions.grow(count)
        return topic

    def _opened(self) -> None:
        self.published += 1

    def open_now(self) -> dict[str, int]:
        return {name: len(topic.partitions.opened()) for name, topic in self.topics.items()}

    # -- opening

    def epoch_of(self, topic_id: bytes, index: int) -> int:
        return self.epoch

    async def wait_until_prepared(self, topic: Topic, index: int, epoch: int) -> None:
        if self.preparing is not None:
            await self.preparing.wait()
        if epoch <= self.owned_elsewhere:
            raise NotOwned

    def is_led(self, topic: Topic, index: int, epoch: int) -> bool:
        return epoch == self.epoch

    def let_go(self, topic: Topic, index: int) -> None:
        self.noted.append((f"{topic.name}{index}", "let go"))

    def beside(self) -> Any:
        return None if self._in_memory else Files(self)

    def __call__(self, topic: Topic, index: int, epoch: int, config: TopicConfig, files: "Files | None") -> Any:
        place = f"{topic.name}{index}"
        self.noted.append((place, "opened"))
        if files is not None:
            files.place = place
            if files.is_given_up:
                raise GivenUp
        if place in self.failures:
            raise self.failures[place]
        return SimpleNamespace(
            offline=self.offline,
            discard=lambda: self.noted.append((place, "discarded")),
            configure=lambda config: self.noted.append((place, f"configured {config.max_message_bytes}")),
        )

    async def _beside(self, work: Callable[[], Any]) -> Any:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
            return work()
        finally:
            self.under_way -= 1


class Files:
    """What is opened on another thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.place = ""
        self.is_given_up = False

    def hand_over(self) -> None:
        self._world.noted.append((self.place, "handed over"))

    def close(self) -> None:
        self._world.noted.append((self.place, "closed"))

    def give_up(self) -> None:
        self.is_given_up = True
        self._world.gate.set()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def in_a(story: Callable[[World], Any], *, in_memory: bool = False, **topics: int) -> None:
    async def run() -> None:
        await story(World(in_memory=in_memory, **topics))

    asyncio.run(run())


def test_all_are_opened_once_in_order() -> None:
    async def story(world: World) -> None:
        assert world.logs.any_left
        t, u = world.topics.values()
        await asyncio.gather(world.logs.wait_until_open([t, u]), world.logs.wait_until_open([t]))
        opened = [place for place, what in world.noted if what == "opened"]
        assert opened == ["t0", "t1", "t2", "u0"]
        assert [place for place, what in world.noted if what == "handed over"] == opened
        assert len(world.noted) == 8 and world.published == 4
        assert world.open_now() == {"t": 3, "u": 1} and not world.logs.any_left
        world.logs.add(t)
        assert not world.logs.any_left, "it has nothing to open"

    in_a(story, t=3, u=1)


def test_in_memory_they_are_opened_on_the_loop() -> None:
    async def story(world: World) -> None:
        await world.logs.wait_until_open(list(world.topics.values()))
        assert world.noted == [("t0", "opened"), ("t1", "opened")] and world.published == 2

    in_a(story, in_memory=True, t=2)


def test_a_few_are_opened_at_a_time() -> None:
    async def story(world: World) -> None:
        world.gate.clear()
        waiting = asyncio.ensure_future(asyncio.wait_for(_all_wanted(world), None))
        await turns()
        assert world.under_way == AT_A_TIME
        world.gate.set()
        await waiting
        assert world.open_now() == {"t": 5} and world.most_under_way == AT_A_TIME

    in_a(story, t=5)


async def _all_wanted(world: World) -> None:
    (topic,) = world.topics.values()
    await asyncio.gather(*(world.logs.wait_a_moment([(topic, index)]) for index in range(len(topic.partitions))))


def test_what_is_wanted_is_opened_and_nothing_else() -> None:
    async def story(world: World) -> None:
        t, u = world.topics.values()
        await world.logs.wait_a_moment([(None, 0), (t, 1), (t, 7), (t, -1), (u, 0), (t, 1)])
        assert [place for place, what in world.noted if what == "opened"] == ["t1", "u0"]
        assert world.open_now() == {"t": 1, "u": 1} and world.logs.any_left

    in_a(story, t=3, u=1)


def test_who_waits_a_moment_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.coordination.opening_logs.MOMENT_S", 0)

    async def story(world: World) -> None:
        world.gate.clear()
        t, u = world.topics.values()
        await world.logs.wait_a_moment([(t, 0), (u, 0)])
        assert world.open_now() == {"t": 0, "u": 0}
        world.gate.set()
        await turns()
        assert world.open_now() == {"t": 1, "u": 0}, "what is under way goes on, and the other was not begun"

    in_a(story, t=2, u=1)


def test_a_configuration_that_changed_meanwhile_is_taken() -> None:
    async def story(world: World) -> None:
        world.gate.clear()
        (t,) = world.topics.values()
        waiting = asyncio.ensure_future(world.logs.wait_until_open([t]))
        await turns()
        t.configure(replace(CONFIG, max_message_bytes=77))
        world.gate.set()
        await waiting
        assert world.noted == [
            ("t0", "opened"),
            ("t0", "handed over"),
            ("t0", "configured 77"),
            ("t1", "opened"),
            ("t1", "handed over"),
        ]

    in_a(story, t=2)


def test_a_damaged_log_is_published_and_its_files_are_closed() -> None:
    async def story(world: World) -> None:
        world.offline = "damaged"
        (t,) = world.topics.values()
        await world.logs.wait_until_open([t])
        assert world.noted == [("t0", "opened"), ("t0", "closed")]
        assert (len(t.partitions.offline()), world.published, world.logs.any_left) == (1, 1, False)

    in_a(story, t=1)


def test_of_a_topic_that_is_gone_meanwhile_nothing_is_published() -> None:
    async def story(world: World) -> None:
        world.gate.clear()
        (t,) = world.topics.values()
        waiting = asyncio.ensure_future(world.logs.wait_until_open([t]))
        await turns()
        world.standing.clear()
        world.gate.set()
        await waiting
        assert world.noted == [("t0", "opened"), ("t0", "discarded"), ("t0", "closed")]
        assert (world.open_now(), world.published) == ({"t": 0}, 0)
        await world.logs.wait_until_open([t])
        await world.logs.wait_a_moment([(t, 1)])
        assert len(world.noted) == 3

    in_a(story, t=2)


def test_a_deleted_topic_is_left_when_nothing_uses_its_logs_any_more() -> None:
    async def story(world: World) -> None:
        world.gate.clear()
        t, u = world.topics.values()
        waiting = [asyncio.ensure_future(world.logs.wait_until_open([one])) for one in (t, u)]
        await turns()
        world.standing.remove("t")
        await world.logs.wait_until_left(t)
        assert world.noted[:2] == [("t0", "opened"), ("t0", "closed")]
        assert not world.logs.half_done, "nobody will look for it"
        await asyncio.gather(*waiting)
        assert world.open_now() == {"t": 0, "u": 1} and not world.logs.any_left
        await world.logs.wait_until_left(u)

    in_a(story, t=1, u=1)


@pytest.mark.parametrize("moment_s", [0.0, 60.0])
def test_a_stop_waits_a_moment_and_then_gives_up(moment_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.coordination.opening_logs.LAST_MOMENT_S", moment_s)

    async def story(world: World) -> None:
        world.gate.clear()
        (t,) = world.topics.values()
        waiting = asyncio.ensure_future(world.logs.wait_until_open([t]))
        await turns()
        world.logs.stop()
        stopped = asyncio.ensure_future(world.logs.wait_until_stopped())
        await turns()
        if moment_s:
            assert not stopped.done()
            world.gate.set()
        await stopped
        assert waiting.done(), "and opens no other"
        assert world.logs.half_done is not bool(moment_s)
        assert world.noted == [("t0", "opened"), ("t0", "handed over" if moment_s else "closed")]
        await world.logs.wait_a_moment([(t, 1)])
        assert len(world.noted) == 2

    in_a(story, t=2)


@pytest.mark.parametrize("failure", [OSError(5, "broken"), StorageFailed("broken")])
def test_a_log_that_cannot_be_opened_is_not_looked_at_again(failure: Exception) -> None:
    async def story(world: World) -> None:
        world.failures["t0"] = failure
        t = world.topics["t"]
        for wait in (
            lambda: world.logs.wait_until_open([t]),
            lambda: world.logs.wait_a_moment([(t, 0)]),
            lambda: world.logs.wait_until_stopped(),
        ):
            with pytest.raises(StorageFailed, match="broken"):
                await wait()
        assert world.noted == [("t0", "opened"), ("t0", "closed")]
        assert world.open_now() == {"t": 0, "u": 0} and not world.logs.half_done

    in_a(story, t=1, u=1)


def test_who_is_called_back_is_so_whatever_came_of_it() -> None:
    async def story(world: World) -> None:
        (t,) = world.topics.values()
        told: list[dict[str, int]] = []
        world.logs.after_opening(t, 1, lambda: told.append(world.open_now()))
        await turns()
        assert told == [{"t": 1}]
        world.logs.stop()
        world.logs.after_opening(t, 0, lambda: told.append(world.open_now()))
        await turns()
        assert told == [{"t": 1}, {"t": 1}]

    in_a(story, t=2)
