"""The share coordinator in this node: its shards, and who asks them from inside (Kafka's `DefaultStatePersister`)."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig
from broker.coordination.coordinators import CoordinatorError, Shards
from broker.coordination.topics import TopicDirectory
from broker.partitions.partition import Partition
from broker.partitions.topic import largest_batch
from broker.process.environment import Environment
from coordinator.machine import A, Outcome, Ticket
from coordinator.share_state.answers import Summary, Verdict
from coordinator.share_state.coordinator import ShareCoordinator
from coordinator.share_state.kept import ShareKey, Write
from coordinator.share_state.port import PartitionState, StateBatch
from protocol.errors import ErrorCode
from protocol.internal_topics import SHARE_GROUP_STATE

ShareShards = Shards[ShareCoordinator]


@dataclass(frozen=True, slots=True)
class ConfiguredShareState:
    """`ShareStateSettings` out of the broker's configuration, read each time."""

    config: BrokerConfig
    batch_limit: Callable[[], int]

    @property
    def updates_per_snapshot(self) -> int:
        return self.config.get_int("share.coordinator.snapshot.update.records.per.snapshot")

    @property
    def cold_snapshot_interval_ms(self) -> int:
        return self.config.get_int("share.coordinator.cold.partition.snapshot.interval.ms")

    @property
    def max_batch_bytes(self) -> int:
        return self.batch_limit()


def make_share_shards(
    *, config: BrokerConfig, environment: Environment, topics: TopicDirectory, publish: Callable[[Partition], None]
) -> ShareShards:
    """The shards of `__share_group_state`. Which one keeps a share partition follows from how many the topic has."""
    settings = ConfiguredShareState(config, lambda: largest_batch(topics.by_name(SHARE_GROUP_STATE)))

    def is_there(topic_id: bytes, partition: int) -> bool:
        topic = topics.by_id(topic_id)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def partition_count() -> int:
        topic = topics.by_name(SHARE_GROUP_STATE)
        key = "share.coordinator.state.topic.num.partitions"
        return config.get_int(key) if topic is None else len(topic.partitions)

    return Shards(
        topic=SHARE_GROUP_STATE,
        partition_count=partition_count,
        make=lambda index: ShareCoordinator(settings, is_there),
        environment=environment,
        load_bytes=lambda: config.get_int("share.coordinator.load.buffer.size"),
        exists=lambda: topics.by_name(SHARE_GROUP_STATE) is not None,
        publish=publish,
        compacted=False,
    )


def coordinator_key(key: ShareKey) -> str:
    """What decides who keeps a share partition, and what FindCoordinator is asked for: `group:topicId:partition`."""
    topic_id = urlsafe_b64encode(key.topic_id).rstrip(b"=").decode()
    return f"{key.group_id}:{topic_id}:{key.partition}"


_KEY = re.compile(r".+:[A-Za-z0-9_-]{21}[AEIMQUYcgkosw048]:[-+]?\d{1,10}", re.ASCII | re.DOTALL)


def names_share_partition(key: str) -> bool:
    """Whether this is such a name. A group may have colons in its id."""
    return _KEY.fullmatch(key) is not None


class ShareStateKeeper:
    """Keeps the state of share partitions: `Persister` for who serves them, and more for the group coordinator. Answers
    errors, NOT_COORDINATOR while there is no topic; raises nothing."""

    def __init__(self, shards: ShareShards) -> None:
        self.shards = shards

    async def read_state(
        self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> PartitionState | ErrorCode:
        """See `Persister`."""
        answer = await self.read(ShareKey(group_id, topic_id, partition), leader_epoch)
        return answer.error if isinstance(answer, Verdict) else answer

    async def write_state(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        """See `Persister`."""
        change = Write(leader_epoch, start_offset, delivery_complete_count, tuple(batches))
        verdict = await self.write(ShareKey(group_id, topic_id, partition), state_epoch, change)
        return verdict.error

    async def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> Verdict:
        """Begin anew with a share partition."""
        return await self._ask(
            key,
            lambda machine, ticket, now_ms: machine.initialize(
                key, ticket, now_ms, state_epoch=state_epoch, start_offset=start_offset
            ),
        )

    async def read(self, key: ShareKey, leader_epoch: int) -> PartitionState | Verdict:
        """All that is kept of a share partition."""
        return await self._ask(
            key, lambda machine, ticket, now_ms: machine.read(key, ticket, now_ms, leader_epoch=leader_epoch)
        )

    async def write(self, key: ShareKey, state_epoch: int, change: Write) -> Verdict:
        """Keep a change."""
        return await self._ask(
            key,
            lambda machine, ticket, now_ms: machine.write(key, ticket, now_ms, state_epoch=state_epoch, write=change),
        )

    async def summarize(self, key: ShareKey) -> Summary | Verdict:
        """How far a share partition is."""
        return await self._ask(key, lambda machine, ticket, now_ms: machine.summarize(key, ticket, now_ms))

    async def delete(self, key: ShareKey) -> Verdict:
        """Keep nothing of a share partition any more."""
        return await self._ask(key, lambda machine, ticket, now_ms: machine.delete(key, ticket, now_ms))

    async def _ask(
        self, key: ShareKey, operation: Callable[[ShareCoordinator, Ticket[A], int], Outcome[A]]
    ) -> A | Verdict:
        try:
            return await self.shards.ask(coordinator_key(key), operation)
        except CoordinatorError as refused:
            return Verdict(refused.error)
