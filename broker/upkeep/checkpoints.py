"""Recovery points and log starts of all partitions, written down off the loop, one writing at a time.

Rule 1. Whoever waits for `write` knows that everything that held when it was called is on the disk.
Rule 2. What changes while one is being written is in the next one, which serves all who came meanwhile.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from broker.coordination.topics import TopicDirectory
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from storage.data_folder import DataFolder
from storage.log import StorageFailed

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
        """Raises `StorageFailed`. Whoever gives up waiting stops nothing."""
        if self._data_folder is None:
            return
        if self._next is None:
            self._next = self._own(self._write())
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        folder = self._data_folder
        assert folder is not None
        async with self._one_at_a_time:
            self._next = None
            recovery_points, start_offsets = self.offsets()
            try:
                await self._environment.run_blocking(lambda: folder.checkpoint(recovery_points, start_offsets))
            except OSError as error:
                raise StorageFailed(f"the checkpoints could not be written: {error}") from error

    def offsets(self) -> tuple[Offsets, Offsets]:
        """(recovery points, log start offsets) of all partitions; starts at 0 are not worth a line."""
        recovery_points: Offsets = {}
        start_offsets: Offsets = {}
        folder = self._data_folder
        if folder is not None:
            for topic in self._topics.all():  # what is not open yet keeps what was written down before
                for index in range(len(topic.partitions)):
                    known = folder.recovery_of(topic.name, index)
                    recovery_points[topic.name, index] = known.recovery_point
                    start_offsets[topic.name, index] = known.log_start_offset
        for partition in self._open_partitions():
            name = (partition.topic, partition.index)
            recovery_points[name] = partition.log.recovery_point
            start_offsets[name] = partition.log.start_offset
        return recovery_points, {name: offset for name, offset in start_offsets.items() if offset > 0}
