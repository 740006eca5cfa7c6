"""Recovery points and log starts of all partitions, written down off the loop, one writing at a time.

Rule 1. When `write` returns, everything that held when it was called is on the disk.
Rule 2. What changes while one is being written is in the next one, which serves all who came meanwhile.
Rule 3. They are gathered in slices of time: no offset is older than the moment at which that began. What is said of two
        partitions need not be of one moment, for nothing follows from both.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from broker.coordination.topics import TopicDirectory
from broker.partitions.errors import vital
from broker.partitions.partition import Partition
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from storage.data_folder import DataFolder

Offsets = dict[tuple[str, int], int]


class Checkpoints:
    """Those of one node; nothing happens where it keeps everything in memory and has no data folder.

    `open_partitions` are those that have a log by now, `topics` also know the others. `own` runs a writing to its end.
    """

    def __init__(
        self,
        data_folder: DataFolder | None,
        *,
        topics: TopicDirectory,
        open_partitions: Callable[[], Sequence[Partition]],
        environment: Environment,
        own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        self._data_folder = data_folder
        self._topics = topics
        self._open_partitions = open_partitions
        self._environment = environment
        self._own = own
        self._one_at_a_time = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def write(self) -> None:
        """Raises `StorageFailed`. Cancelling the wait does not stop the write."""
        if self._data_folder is None:
            return
        if self._next is None:
            self._next = self._own(self._write())
        await asyncio.shield(self._next)

    async def forget(self, topic: Topic) -> None:
        """What was written down of a deleted topic is not to be believed of one with the same name after a crash: its
        log would begin where that of the deleted one did, and what was acknowledged below would be gone."""
        if self._data_folder is None:
            return
        written = [self._data_folder.forget(topic.name, index) for index in range(len(topic.partitions))]
        logs = [partition.log for partition in topic.partitions.opened()]
        if any(written) or any(log.start_offset or log.recovery_point for log in logs):
            await self.write()

    async def _write(self) -> None:
        folder = self._data_folder
        assert folder is not None
        async with self._one_at_a_time:
            self._next = None
            recovery_points, start_offsets = await self.offsets()
            with vital("the checkpoints could not be written"):
                await self._environment.run_blocking(lambda: folder.checkpoint(recovery_points, start_offsets))

    async def offsets(self) -> tuple[Offsets, Offsets]:
        """(recovery points, log start offsets) of all partitions; starts at 0 are not worth a line."""
        recovery_points: Offsets = {}
        start_offsets: Offsets = {}
        time_slice = self._environment.time_slice()
        for name, recovery_point, start_offset in self._each():
            recovery_points[name] = recovery_point
            if start_offset > 0:
                start_offsets[name] = start_offset
            else:
                start_offsets.pop(name, None)
            if time_slice.spent():
                await time_slice.wait_for_turn()
        return recovery_points, start_offsets

    def _each(self) -> Iterator[tuple[tuple[str, int], int, int]]:
        """(name, recovery point, log start offset) of each partition; what is said later counts."""
        if self._data_folder is not None:
            for topic in self._topics.all():
                for index in range(len(topic.partitions)):  # what is not open yet keeps what was written down before
                    known = self._data_folder.recovery_of(topic.name, index)
                    yield (topic.name, index), known.recovery_point, known.log_start_offset
        looked_at: set[Partition] = set()
        while opened := [partition for partition in self._open_partitions() if partition not in looked_at]:
            looked_at.update(opened)  # and once more for those that are opened meanwhile
            for partition in opened:
                yield (partition.topic, partition.index), partition.log.recovery_point, partition.log.start_offset
