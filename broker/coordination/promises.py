"""What a PREPARE_COMMIT promises is on the disk before the record itself is written (decision 0001).

The order of syncs alone would not do: the kernel may write a page back before anybody asks for it, so that a PREPARE
that was only appended may survive a power cut that takes records appended before it. Clients that wait for the
acknowledgement of what they wrote, as all do with acks=all, have nothing to wait for here. An abort promises nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.topics import TopicDirectory
from broker.coordination.transactions import TransactionShards
from broker.partitions.committing import Committing
from broker.partitions.errors import PartitionError
from broker.partitions.partition import Partition
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from coordinator.runtime import ShardState
from coordinator.transactions.states import NO_TOPIC_ID, Transaction, TransactionState, each_partition
from protocol.errors import ErrorCode

T = TypeVar("T")


class PromiseServices(Protocol):
    """What is looked at: the transaction, and the partitions it wrote to."""

    @property
    def environment(self) -> Environment: ...

    @property
    def topics(self) -> TopicDirectory: ...

    @property
    def transactions(self) -> TransactionShards: ...

    @property
    def group_commit(self) -> Committing: ...


async def when_promises_are_durable(
    services: PromiseServices, transactional_id: str, decide: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """What `decide` returns, which runs when nothing that the open transaction of this id has written waits for a sync.

    `decide` asks the coordinator before it awaits anything else. A client that goes away meanwhile stops nothing (I45).
    Raises `CoordinatorError` (14, 16).
    """
    waits = await _promises(services, transactional_id)
    if not waits:
        return await decide()

    async def wait_and_decide(waits: "list[asyncio.Future[None]]") -> T:
        while waits:
            await asyncio.wait(waits)
            for wait in waits:
                error = wait.exception()
                if error is not None and not isinstance(error, PartitionError):
                    raise error
            waits = await _promises(services, transactional_id)
        return await decide()

    return await asyncio.shield(asyncio.get_running_loop().create_task(wait_and_decide(waits)))


async def _promises(services: PromiseServices, transactional_id: str) -> "list[asyncio.Future[None]]":
    """Callers that have waited for these look again."""
    transactions = services.transactions
    index = transactions.partition_for(transactional_id)
    while True:
        shard = transactions.shard(index)
        if shard is None or shard.state is not ShardState.ACTIVE:
            shard = await transactions.wait_until_ready(index)
        transaction = shard.machine.transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return []
        if not await _all_open(services, transaction):
            continue
        waits = await _not_durable(services, transaction)
        now = transactions.shard(index)
        if now is not None and now.machine.transactions.get(transactional_id) is transaction:
            return waits
        # It has become another meanwhile, perhaps with more partitions.


async def _all_open(services: PromiseServices, transaction: Transaction) -> bool:
    """Whether nobody had to wait for that, who is to look again then. Raises `CoordinatorError` (14)."""
    to_open = services.topics.to_open
    closed = await _closed(services, transaction) if to_open.any_left else []
    if closed:
        # What is in a log is on the disk when it is open, and nobody knows before.
        await to_open.wait_a_moment(closed)
        if any(topic.partitions.is_closed(index) for topic, index in closed):
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return not closed


async def _closed(services: PromiseServices, transaction: Transaction) -> list[tuple[Topic, int]]:
    """Those of its partitions whose logs are not open yet."""
    topics, time_slice = services.topics, services.environment.time_slice()
    closed: list[tuple[Topic, int]] = []
    for name, topic_id, index in each_partition(transaction.partitions):
        topic = topics.by_name(name) if topic_id == NO_TOPIC_ID else topics.by_id(topic_id)
        if topic is not None and topic.partitions.is_closed(index):
            closed.append((topic, index))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return closed


async def _not_durable(services: PromiseServices, transaction: Transaction) -> "list[asyncio.Future[None]]":
    """All that is to be waited for, or the first of it. What was durable stays so. Writes of the transaction made
    while this looks elsewhere are not answered yet; a client that ends it without waiting is promised nothing."""
    waits: list[asyncio.Future[None]] = []
    time_slice = services.environment.time_slice()
    for name, topic_id, index in each_partition(transaction.partitions):
        partition = _partition(services.topics, name, topic_id, index)
        if partition is not None and partition.high_watermark < partition.end_offset:
            services.group_commit.publish(partition)
            wait = partition.committed(partition.derived.producers.last_offset(transaction.producer_id) + 1)
            if wait is not None:
                waits.append(wait)
        if time_slice.spent():
            if waits:
                break
            await time_slice.wait_for_turn()
    return waits


def _partition(topics: TopicDirectory, name: str, topic_id: bytes, index: int) -> Partition | None:
    """A topic that was deleted meanwhile promises nothing any more."""
    return topics.partition(name, index) if topic_id == NO_TOPIC_ID else topics.partition_by_id(topic_id, index)
