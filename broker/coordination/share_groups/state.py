"""The share coordinator in this node: its shards, and who asks them and those of other nodes from inside (Kafka's
`DefaultStatePersister`)."""

import asyncio
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig
from broker.coordination.across_nodes.peer_share_state import PeerShareState, ShareStateAt
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

PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Between questions, where who keeps a share partition comes into its place, or moves."""
PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


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
        led=lambda index: topics.leads(SHARE_GROUP_STATE, index),
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
    errors, NOT_COORDINATOR while there is no topic; raises nothing. `peers` is the way to what other nodes keep; None
    where this one is alone."""

    def __init__(self, shards: ShareShards, peers: PeerShareState | None = None) -> None:
        self.shards = shards
        self._peers = peers

    @property
    def here(self) -> "ShareStateKeeper":
        """For who asks this node for what it keeps itself: another is not asked in turn."""
        return self if self._peers is None else ShareStateKeeper(self.shards)

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
        return await self._patiently(
            key,
            lambda machine, ticket, now_ms: machine.initialize(
                key, ticket, now_ms, state_epoch=state_epoch, start_offset=start_offset
            ),
            lambda there: there.initialize(key, state_epoch=state_epoch, start_offset=start_offset),
        )

    async def read(self, key: ShareKey, leader_epoch: int) -> PartitionState | Verdict:
        """All that is kept of a share partition."""
        return await self._ask(
            key,
            lambda machine, ticket, now_ms: machine.read(key, ticket, now_ms, leader_epoch=leader_epoch),
            lambda there: there.read(key, leader_epoch),
        )

    async def write(self, key: ShareKey, state_epoch: int, change: Write) -> Verdict:
        """Keep a change."""
        return await self._ask(
            key,
            lambda machine, ticket, now_ms: machine.write(key, ticket, now_ms, state_epoch=state_epoch, write=change),
            lambda there: there.write(key, state_epoch, change),
        )

    async def summarize(self, key: ShareKey) -> Summary | Verdict:
        """How far a share partition is."""
        return await self._patiently(
            key,
            lambda machine, ticket, now_ms: machine.summarize(key, ticket, now_ms),
            lambda there: there.summarize(key),
        )

    async def delete(self, key: ShareKey) -> Verdict:
        """Keep nothing of a share partition any more."""
        return await self._patiently(
            key,
            lambda machine, ticket, now_ms: machine.delete(key, ticket, now_ms),
            lambda there: there.delete(key),
        )

    async def _patiently(
        self,
        key: ShareKey,
        operation: Callable[[ShareCoordinator, Ticket[A], int], Outcome[A]],
        elsewhere: Callable[[ShareStateAt], Awaitable[A | Verdict]],
    ) -> A | Verdict:
        """As `_ask`, for who does not ask again by itself: a topic that was just made is not known to all nodes yet,
        and who keeps a share partition may move."""
        for pause_s in () if self._peers is None else PAUSES_S:
            answer = await self._ask(key, operation, elsewhere)
            if not isinstance(answer, Verdict) or answer.error not in PASSING:
                return answer
            await asyncio.sleep(pause_s)
        return await self._ask(key, operation, elsewhere)

    async def _ask(
        self,
        key: ShareKey,
        operation: Callable[[ShareCoordinator, Ticket[A], int], Outcome[A]],
        elsewhere: Callable[[ShareStateAt], Awaitable[A | Verdict]],
    ) -> A | Verdict:
        """In the shard that has the key, here or `elsewhere`."""
        name, peers = coordinator_key(key), self._peers
        there = None if peers is None else peers.at(self.shards.partition_for(name))
        if there is not None:
            return await elsewhere(there)
        try:
            return await self.shards.ask(name, operation)
        except CoordinatorError as refused:
            if refused.error is ErrorCode.NOT_COORDINATOR and peers is not None and peers.has_begun:
                return Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # it moves away
            return Verdict(refused.error)
