"""What happens to a deleted topic, step by step, and who waits for it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.config.topic_config import TopicConfig
from broker.coordination.leaving_topics import RENAMED_AT_ONCE, LeavingTopics
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from storage.log import StorageFailed
from tests.harness.work_clock import WorkClock

ID = b"t" * 16


class World:
    """The store and the environment of one topic `t`; what is done with it is noted."""

    def __init__(self, count: int, *, in_memory: bool = False) -> None:
        self.noted: list[object] = []
        self.in_memory = in_memory
        self.failure: Exception | None = None
        self.is_released = True
        self.topic = Topic("t", ID, TopicConfig(), lambda index: cast(Any, "closed"))
        self.topic.partitions.grow(count)
        self.opened = [self._partition(index) for index in range(count)]
        for index, partition in enumerate(self.opened):
            self.topic.partitions.put(index, partition)
        self.leaving = LeavingTopics(cast(Any, self), cast(Any, self), self._until_left)
        self.leaving.before_reuse.append(self._reuse)

    def _partition(self, index: int) -> Any:
        return SimpleNamespace(log=index, offline=None, discard=lambda: self.noted.append(("discard", index)))

    async def _until_left(self, topic: Topic) -> None:
        self.noted.append("left")

    async def _reuse(self, topic: Topic) -> None:
        self.noted.append(("before reuse", set(self.leaving.with_folders)))

    # -- the store

    def release(self, log: int) -> bool:
        self.is_released = not self.is_released
        self.noted.append(("release", log, self.is_released))
        return self.is_released

    def beside(self) -> Any:
        return None if self.in_memory else SimpleNamespace(hand_over=lambda: self.noted.append("handed over"))

    def remove(self, name: str, topic_id: bytes, indexes: range, files: object) -> None:
        self.noted.append((name, topic_id, indexes))
        if self.failure is not None:
            raise self.failure

    def removed(self, name: str, topic_id: bytes, count: int) -> None:
        self.noted.append((name, topic_id, "removed", count))

    # -- the world

    def time_slice(self) -> TimeSlice:
        return TimeSlice(WorkClock().now)

    async def run_blocking(self, work: Any) -> None:
        work()


def gone(world: World) -> None:
    async def story() -> None:
        world.leaving.add(world.topic, list(world.opened))
        assert world.leaving.with_folders == {ID} and world.leaving.find("t") is not None
        await world.leaving.wait_until_removed(["other"])
        assert not world.noted, "nobody waits for another topic"
        await world.leaving.wait_until_removed(["other", "t"])
        assert world.leaving.find("t") is None
        await world.leaving.wait_until_idle()

    asyncio.run(story())


def test_logs_are_closed_then_folders_are_moved_then_the_name_is_free() -> None:
    """A log that somebody still reads is asked for again."""
    world = World(2)
    gone(world)
    assert world.noted == [
        "left",
        ("discard", 0),
        ("release", 0, False),
        ("release", 0, True),
        ("discard", 1),
        ("release", 1, False),
        ("release", 1, True),
        ("t", ID, range(2)),
        "handed over",
        ("t", ID, "removed", 2),
        ("before reuse", set()),
    ]
    assert not world.topic.partitions.opened()


@pytest.mark.parametrize("more", [0, 1, RENAMED_AT_ONCE])
def test_each_folder_is_moved_once_some_at_a_time(more: int) -> None:
    world = World(RENAMED_AT_ONCE + more)
    gone(world)
    moved = [one[2] for one in world.noted if isinstance(one, tuple) and one[0] == "t"]
    first = range(RENAMED_AT_ONCE)
    rest = [range(RENAMED_AT_ONCE, RENAMED_AT_ONCE + more)] if more else []
    assert moved == [first, *rest, "removed"]


def test_in_memory_there_are_no_folders() -> None:
    world = World(1, in_memory=True)
    gone(world)
    assert world.noted[-1] == ("before reuse", set())
    assert [one for one in world.noted if isinstance(one, tuple) and one[0] == "t"] == [("t", ID, "removed", 1)]


def test_a_folder_that_cannot_be_moved_is_told_to_who_waits() -> None:
    world = World(1)
    world.failure = OSError(5, "broken")
    with pytest.raises(StorageFailed, match="broken"):
        gone(world)
    assert world.leaving.with_folders == {ID}
