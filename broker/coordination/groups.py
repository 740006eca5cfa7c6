"""The group coordinator in this node: its shards, its settings, and what it does when a topic is deleted."""

from collections.abc import Callable

from broker.config.broker_config import BrokerConfig
from broker.coordination.coordinators import CoordinatorError, Shards
from broker.partitions.partition import Partition
from broker.partitions.topics import TopicDirectory
from broker.process.environment import Environment
from coordinator.groups.coordinator import GroupCoordinator

CONSUMER_OFFSETS = "__consumer_offsets"


class ConfiguredGroups:
    """`GroupSettings` from the configuration, read when they are needed."""

    def __init__(self, config: BrokerConfig) -> None:
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


def make_group_shards(
    *, config: BrokerConfig, environment: Environment, topics: TopicDirectory, publish: Callable[[Partition], None]
) -> Shards[GroupCoordinator]:
    """The shards of `__consumer_offsets`.

    The number of partitions is that of the topic once it exists, for it decides who keeps what.
    """
    settings = ConfiguredGroups(config)

    def partition_count() -> int:
        topic = topics.by_name(CONSUMER_OFFSETS)
        return config.get_int("offsets.topic.num.partitions") if topic is None else len(topic.partitions)

    shards: Shards[GroupCoordinator] = Shards(
        topic=CONSUMER_OFFSETS,
        partition_count=partition_count,
        make=lambda index: GroupCoordinator(settings),
        environment=environment,
        load_bytes=lambda: config.get_int("offsets.load.buffer.size"),
        exists=lambda: topics.by_name(CONSUMER_OFFSETS) is not None,
        publish=publish,
    )

    def leapt(by_ms: int) -> None:
        for shard in shards.all():
            shard.machine.time_leapt(by_ms)

    shards.clock.on_leap = leapt
    return shards


async def forget_topic_offsets(groups: Shards[GroupCoordinator], topic: str, topic_id: bytes) -> None:
    """Write tombstones for all offsets of a deleted topic, some at a time.

    A shard that is not ready is passed over: what is left there belongs to a topic id that is gone, is never told to
    anybody, and expires.
    """
    for index, _ in groups.indexed():
        more = True
        while more:
            try:
                more = await groups.ask_partition(
                    index, lambda machine, ticket, now_ms: machine.forget_topic(topic, topic_id, ticket, now_ms)
                )
            except CoordinatorError:
                more = False
