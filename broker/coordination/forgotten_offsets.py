"""Offsets of deleted topics: tombstones in the groups' log, however many topics are deleted.

One task goes over all groups for all topics that were deleted since the last time, some offsets in each step; those
that are deleted meanwhile are for the next time. What a crash leaves belongs to a topic id that is gone, is in no
response, and expires.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from broker.coordination.coordinators import CoordinatorError, Shards
from broker.partitions.topic import Topic
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.retention import TopicDeletion
from coordinator.machine import Outcome, Ticket


class ForgottenOffsets:
    """Those of one node. `own` runs the work to its end."""

    def __init__(
        self, groups: Shards[GroupCoordinator], own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
    ) -> None:
        self._groups = groups
        self._own = own
        self._waiting: list[tuple[str, bytes]] = []
        self._work: asyncio.Task[None] | None = None

    def forget(self, topic: Topic) -> None:
        """The topic is deleted: so are its offsets, some time soon."""
        self._waiting.append((topic.name, topic.topic_id))
        if self._work is None or self._work.done():
            self._work = self._own(self._run())

    async def _run(self) -> None:
        while self._waiting:
            topics, self._waiting = self._waiting, []
            for index, _ in self._groups.indexed():
                await self._forget_in(index, TopicDeletion(topics))

    async def _forget_in(self, index: int, deletion: TopicDeletion) -> None:
        """In one shard. One that is not ready is passed over."""

        def forget(machine: GroupCoordinator, ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
            return machine.forget_topics(deletion, ticket, now_ms)

        with contextlib.suppress(CoordinatorError):
            while await self._groups.ask_partition(index, forget):
                await asyncio.sleep(0)
