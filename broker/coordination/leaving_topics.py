"""Deleted topics whose logs are still to be closed and moved out of the way; a name is free when they are.

Their partitions can no longer be found or written. Requests waiting at one are answered when it is closed, in turn.
Folders are renamed on another thread: a file system whose journal is full lets each rename wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from broker.partitions.errors import vital
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.partitions.topic import Topic
from broker.process.environment import Environment

RELEASE_RETRY_S = 0.002
RENAMED_AT_ONCE = 64
"""How many folders go to the thread together, which others want as well."""


class LeavingTopics:
    """Those of one directory. `until_left` waits until none of a topic's logs is being opened any more."""

    def __init__(
        self, store: PartitionStore, environment: Environment, until_left: Callable[[Topic], Awaitable[None]]
    ) -> None:
        self._until_left = until_left
        self._store = store
        self._environment = environment
        self.with_folders: set[bytes] = set()
        """Ids of those whose folders may still have their names."""
        self.before_reuse: list[Callable[[Topic], Awaitable[None]]] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._removing = asyncio.Lock()
        """The logs of one topic are moved out of the way at a time: a thousand tasks of one step each are one turn."""

    def add(self, topic: Topic, opened: list[Partition]) -> None:
        """Its `opened` partitions take no more writes by now."""
        self.with_folders.add(topic.topic_id)
        task = asyncio.get_running_loop().create_task(self._remove_logs(topic, opened))
        self._tasks[topic.name] = task

        def gone(_: asyncio.Task[None]) -> None:
            del self._tasks[topic.name]

        task.add_done_callback(gone)

    def find(self, name: str) -> "asyncio.Task[None] | None":
        """What has to end before the name is free."""
        return self._tasks.get(name)

    async def _remove_logs(self, topic: Topic, opened: list[Partition]) -> None:
        await self._until_left(topic)
        async with self._removing:
            time_slice = self._environment.time_slice()
            for partition in opened:
                partition.discard()
                while not self._store.release(partition.log):
                    await asyncio.sleep(RELEASE_RETRY_S)
                if time_slice.spent():
                    await time_slice.wait_for_turn()
            await self._remove_folders(topic)
        self.with_folders.remove(topic.topic_id)
        for follower in self.before_reuse:
            await follower(topic)
        opened.clear()
        for index in range(len(topic.partitions)):  # a hundred objects each: not all in the turn that ends this task
            topic.partitions.forget(index)
            if time_slice.spent():
                await time_slice.wait_for_turn()

    async def _remove_folders(self, topic: Topic) -> None:
        name, topic_id, count = topic.name, topic.topic_id, len(topic.partitions)
        for first in range(0, count, RENAMED_AT_ONCE):
            files = self._store.beside()
            if files is None:
                break
            indexes = range(first, min(first + RENAMED_AT_ONCE, count))
            with vital(f"the logs of {name} could not be put out of the way"):
                await self._environment.run_blocking(partial(self._store.remove, name, topic_id, indexes, files))
            files.hand_over()
        self._store.removed(name, topic_id, count)

    async def wait_until_removed(self, names: Sequence[str]) -> None:
        """Until the folders of deleted topics of these names are out of the way. Raises `StorageFailed`."""
        leaving = [self._tasks[name] for name in names if name in self._tasks]
        if leaving:
            await asyncio.wait(leaving)
            for one in leaving:
                one.result()
            await asyncio.sleep(0)

    async def wait_until_idle(self) -> None:
        """Let what is under way finish. Raises `StorageFailed`."""
        await self.wait_until_removed(list(self._tasks))
