"""What `__share_group_state` no longer needs: its beginning, and the state of deleted topics."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.share_groups.state import ShareShards
from broker.partitions.errors import PartitionError
from broker.partitions.topic import Topic
from coordinator.machine import Outcome, Ticket
from coordinator.share_state.coordinator import ShareCoordinator


async def prune(shards: ShareShards) -> None:
    """Delete what lies before the oldest snapshot that counts, where all of the log is durable. No checkpoint is
    written for it: a restart that finds more of the log replays it, and knows the same."""
    for index, shard in shards.indexed():
        if shard.is_settled:
            partition = shards.partition(index)
            needed_from = shard.machine.ledger.needed_from
            offset = partition.high_watermark if needed_from is None else needed_from
            if offset > partition.log_start_offset:
                with contextlib.suppress(PartitionError):  # its topic is being deleted, or its log is damaged
                    partition.delete_records(offset)
        await asyncio.sleep(0)


class ForgottenShares:
    """The state of share partitions of deleted topics, in one node. `own` runs the work to its end. What a crash leaves
    belongs to a topic id that is gone, and is asked for by nobody."""

    def __init__(self, shards: ShareShards, own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]) -> None:
        self._shards = shards
        self._own = own
        self._waiting: list[bytes] = []
        self._work: asyncio.Task[None] | None = None

    def forget(self, topic: Topic) -> None:
        """The topic is deleted: so is what is kept of it, some time soon."""
        self._waiting.append(topic.topic_id)
        if self._work is None or self._work.done():
            self._work = self._own(self._run())

    async def _run(self) -> None:
        while self._waiting:
            topics, self._waiting = self._waiting, []
            for index, _ in self._shards.indexed():
                for topic_id in topics:
                    await self._forget_in(index, topic_id)

    async def _forget_in(self, index: int, topic_id: bytes) -> None:
        """In one shard. One that is not ready is passed over."""

        def forget(machine: ShareCoordinator, ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
            return machine.forget_topic(topic_id, ticket, now_ms)

        with contextlib.suppress(CoordinatorError):
            while await self._shards.ask_partition(index, forget):
                await asyncio.sleep(0)
