"""The group coordinator in this node: its shards, its settings, and what it does when a topic is deleted."""

from typing import TYPE_CHECKING

from broker.coordination.coordinators import CoordinatorError, Shards
from coordinator.groups.coordinator import GroupCoordinator

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig
    from broker.node import Node

CONSUMER_OFFSETS = "__consumer_offsets"


class ConfiguredGroups:
    """`GroupSettings` from the configuration, read when they are needed."""

    def __init__(self, config: "BrokerConfig") -> None:
        self._config = config

    @property
    def max_size(self) -> int:
        return self._config.get_int("group.max.size")

    @property
    def min_session_timeout_ms(self) -> int:
        return self._config.get_int("group.min.session.timeout.ms")

    @property
    def max_session_timeout_ms(self) -> int:
        return self._config.get_int("group.max.session.timeout.ms")

    @property
    def initial_rebalance_delay_ms(self) -> int:
        return self._config.get_int("group.initial.rebalance.delay.ms")

    @property
    def offsets_retention_ms(self) -> int:
        return self._config.get_int("offsets.retention.minutes") * 60_000

    @property
    def offsets_retention_check_interval_ms(self) -> int:
        return self._config.get_int("offsets.retention.check.interval.ms")

    @property
    def offset_metadata_max_size(self) -> int:
        return self._config.get_int("offset.metadata.max.bytes")


def make_group_shards(node: "Node") -> Shards[GroupCoordinator]:
    """`node.groups`. The number of partitions is that of the topic once it exists, for it decides who keeps what."""
    settings = ConfiguredGroups(node.config)

    def partition_count() -> int:
        topic = node.topics.by_name(CONSUMER_OFFSETS)
        return node.config.get_int("offsets.topic.num.partitions") if topic is None else len(topic.partitions)

    shards: Shards[GroupCoordinator] = Shards(
        topic=CONSUMER_OFFSETS,
        partition_count=partition_count,
        make=lambda index: GroupCoordinator(settings),
        environment=node.environment,
        load_bytes=lambda: node.config.get_int("offsets.load.buffer.size"),
        exists=lambda: node.topics.by_name(CONSUMER_OFFSETS) is not None,
        publish=node.group_commit.publish,
    )

    def leapt(by_ms: int) -> None:
        for shard in shards.all():
            shard.machine.time_leapt(by_ms)

    shards.clock.on_leap = leapt
    return shards


async def forget_topic_offsets(node: "Node", topic: str, topic_id: bytes) -> None:
    """Write tombstones for all offsets of a deleted topic, some at a time.

    A shard that is not ready is passed over: what is left there belongs to a topic id that is gone, is never told to
    anybody, and expires.
    """
    for index, _ in node.groups.indexed():
        more = True
        while more:
            try:
                more = await node.groups.ask_partition(
                    index, lambda machine, ticket, now_ms: machine.forget_topic(topic, topic_id, ticket, now_ms)
                )
            except CoordinatorError:
                more = False
