"""Deleted topics whose logs are still to be closed and moved out of the way; a name is free when they are.

Their partitions can no longer be found or written. Requests waiting at one are answered when it is closed, in turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from storage.log import StorageFailed

RELEASE_RETRY_S = 0.002


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
            for index in range(len(topic.partitions)):
                self._put_aside(topic, index)
                if time_slice.spent():
                    await time_slice.wait_for_turn()
        self.with_folders.remove(topic.topic_id)
        for follower in self.before_reuse:
            await follower(topic)

    def _put_aside(self, topic: Topic, index: int) -> None:
        """A folder that keeps its name would be taken for one of the next topic of that name."""
        try:
            self._store.remove(topic.name, topic.topic_id, index)
        except OSError as error:
            raise StorageFailed(f"{topic.name}-{index} was deleted and cannot be put aside: {error}") from error

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
