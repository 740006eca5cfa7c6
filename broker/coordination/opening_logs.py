"""Opening the logs of topics: on other threads, a few at a time, while everything else is served.

Rule 1. Nobody sees a partition before it is open. Until then one stands in its place that refuses everything
        (`PartitionWithoutLog`); a request that may wait waits a moment for it first, and so has it opened next.
Rule 2. A log is opened once: later requests for it wait for the same opening, or get the same failure.
Rule 3. Meanwhile its topic may be deleted or configured anew: that is asked again before a partition is published.
Rule 4. An orderly stop opens no more. It waits a moment for logs that are being opened, and gives up those that take
        longer, as long as another machine is asked for them, too: they are as a crash would leave them.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from broker.config.topic_config import TopicConfig
from broker.partitions.errors import vital
from broker.partitions.log_opening import PartitionOpener
from broker.partitions.partition import Partition
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from storage.files import FilesBeside, GivenUp
from storage.log import StorageFailed
from storage.shared.store import NotOwned

MOMENT_S = 1.0
"""How long a request waits for a log, which is opened next. Most are open by then, and no client need come back; far
below any client's request.timeout.ms."""
LAST_MOMENT_S = 0.5
"""How long a stop waits for logs that are being opened."""


class LogsToOpen:
    """See the head of this file. `stands` says whether a topic is still there."""

    def __init__(self, open_one: PartitionOpener, environment: Environment, *, stands: Callable[[Topic], bool]) -> None:
        self.at_a_time = open_one.at_a_time
        self._open_one = open_one
        self._environment = environment
        self._stands = stands
        self._few = asyncio.Semaphore(self.at_a_time)
        self._topics: dict[bytes, Topic] = {}
        """Those that have closed partitions."""
        self._under_way: dict[tuple[bytes, int], asyncio.Task[None]] = {}
        self._begun: set[tuple[bytes, int]] = set()
        """Those of them whose turn has come."""
        self._files: dict[tuple[bytes, int], FilesBeside] = {}
        """What those on other threads use."""
        self._stopping = False
        self.half_done = False
        """Whether a log was given up while it was being opened."""
        self.on_opened: list[Callable[[Topic, Partition], None]] = []
        """Each is called for each log that is open now, or turned out to be damaged."""
        self.on_lost: Callable[[Topic, int, int], None] = lambda topic, index, epoch: None
        """Called where one that was to be opened under an epoch is another node's."""

    @property
    def any_left(self) -> bool:
        """Whether there are closed partitions: at a start, and for a moment when topics are made."""
        return bool(self._topics)

    def add(self, topic: Topic) -> None:
        """A topic is new here, or other partitions of it are open here, or to be opened, than before."""
        if topic.partitions.first_closed() is not None:
            self._topics[topic.topic_id] = topic
        else:
            self._topics.pop(topic.topic_id, None)

    async def wait_until_open(self, topics: Sequence[Topic]) -> None:
        """Until all their logs are open, or they are deleted, or the node stops. Raises `StorageFailed`."""
        time_slice = self._environment.time_slice()
        for topic in topics:
            while self._goes_on(topic) and (index := topic.partitions.first_closed()) is not None:
                await asyncio.shield(self._begin(topic, index))
                if time_slice.spent():
                    await time_slice.wait_for_turn()

    async def wait_until_these_are_open(self, wanted: Iterable[tuple[Topic | None, int]]) -> None:
        """The same, of some logs, one after the other; until they are given to another node, too."""
        time_slice = self._environment.time_slice()
        for topic, index in wanted:
            while topic is not None and self._goes_on(topic) and topic.partitions.is_closed(index):
                await asyncio.shield(self._begin(topic, index))
            if time_slice.spent():
                await time_slice.wait_for_turn()

    async def wait_a_moment(self, wanted: Iterable[tuple[Topic | None, int]]) -> None:
        """Until these partitions are open, as far as they exist, but not for long. Raises `StorageFailed`."""
        if not self._topics:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MOMENT_S
        time_slice = self._environment.time_slice()
        for topic, index in wanted:
            if topic is not None and topic.partitions.is_closed(index) and self._goes_on(topic):
                opening = self._begin(topic, index)
                await asyncio.wait([opening], timeout=max(0.0, deadline - loop.time()))
                if not opening.done():
                    return
                opening.result()
            if time_slice.spent():
                await time_slice.wait_for_turn()

    def after_opening(self, topic: Topic, index: int, then: Callable[[], None]) -> None:
        """Open a log, and call back when that is over: it is open then, or its topic is deleted, or the node stops."""
        self._begin(topic, index).add_done_callback(lambda _: then())

    async def wait_until_left(self, topic: Topic) -> None:
        """The topic was deleted: until its logs are no longer in use."""
        self._topics.pop(topic.topic_id, None)
        places = [place for place in self._begun if place[0] == topic.topic_id]
        for place in places:
            if place in self._files:
                self._files[place].give_up()
        if places:
            await asyncio.wait([self._under_way[place] for place in places])

    def stop(self) -> None:
        """Open no more."""
        self._stopping = True

    async def wait_until_stopped(self) -> None:
        """After `stop`: until nothing is being opened any more. Raises `StorageFailed` where that has failed."""
        left = list(self._under_way.values())
        if left:
            await asyncio.wait(left, timeout=LAST_MOMENT_S)
            self.give_up()
            await asyncio.gather(*left)
        await asyncio.sleep(0)  # waiters for one that has ended just now are called back in the next turn

    def give_up(self) -> None:
        """Open no more, and end soon what is being opened."""
        self.stop()
        for place, opening in self._under_way.items():
            if place in self._files:
                self._files[place].give_up()
            else:
                opening.cancel()

    def _goes_on(self, topic: Topic) -> bool:
        return not self._stopping and self._stands(topic)

    def _begin(self, topic: Topic, index: int) -> "asyncio.Task[None]":
        place = (topic.topic_id, index)
        opening = self._under_way.get(place)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(topic, index))
            self._under_way[place] = opening
        return opening

    async def _open(self, topic: Topic, index: int) -> None:
        """What fails stays in `_under_way`: nobody may take a second look at what a sync has not brought to the disk.
        The first to wait for it ends the process."""
        place = (topic.topic_id, index)
        try:
            async with self._few:
                if self._goes_on(topic) and topic.partitions.is_closed(index):
                    self._begun.add(place)
                    await self._open_in_turn(topic, index)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        self._begun.discard(place)
        self._files.pop(place, None)
        del self._under_way[place]

    async def _open_in_turn(self, topic: Topic, index: int) -> None:
        epoch = self._open_one.epoch_of(topic.topic_id, index)
        try:
            await self._open_one.wait_until_prepared(topic, index, epoch)
        except NotOwned:
            self.on_lost(topic, index, epoch)
        else:
            await self._open_prepared(topic, index, epoch)

    async def _open_prepared(self, topic: Topic, index: int, epoch: int) -> None:
        if not self._goes_on(topic) or not self._open_one.is_led(topic, index, epoch):
            self._open_one.let_go(topic, index)
            return
        files = self._files_for((topic.topic_id, index))
        if files is None:
            self._publish(topic, index, self._open_one(topic, index, epoch, topic.config, None))
        else:
            await self._open_beside(topic, index, epoch, files)

    def _files_for(self, place: tuple[bytes, int]) -> FilesBeside | None:
        files = self._open_one.beside()
        if files is not None:
            self._files[place] = files
        return files

    async def _open_beside(self, topic: Topic, index: int, epoch: int, files: FilesBeside) -> None:
        config: TopicConfig = topic.config
        try:
            with vital(f"{topic.name}-{index} could not be opened"):
                partition = await self._environment.run_beside(
                    lambda: self._open_one(topic, index, epoch, config, files)
                )
        except GivenUp:
            files.close()
            self.half_done = self.half_done or self._stands(topic)
            return
        except StorageFailed:
            files.close()
            raise
        if not self._stands(topic):
            partition.discard()
            files.close()
            return
        if partition.offline is None:
            files.hand_over()
        else:
            files.close()
        if topic.config is not config:
            partition.configure(topic.config)
        self._publish(topic, index, partition)

    def _publish(self, topic: Topic, index: int, partition: Partition) -> None:
        topic.partitions.put(index, partition)
        self.add(topic)
        for follower in self.on_opened:
            follower(topic, partition)
