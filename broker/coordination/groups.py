"""The group coordinator in this node: its shards, its settings, and deletions that take more than one batch.

A batch of tombstones must fit into the log, and making many takes time: what is deleted goes some at a time, with a
turn of the loop in between. Whatever ends it in the middle (the process, a refusal) leaves less of the same, never
offsets without their group; a repeated request deletes the rest.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from broker.config.broker_config import BrokerConfig
from broker.coordination.consumer_groups.settings import ConfiguredConsumerGroups
from broker.coordination.consumer_groups.topics import FollowedTopics
from broker.coordination.coordinators import CoordinatorError, Shards
from broker.coordination.share_groups.settings import ConfiguredShareGroups
from broker.coordination.streams_groups.settings import ConfiguredStreamsGroups
from broker.coordination.topics import TopicDirectory
from broker.partitions.partition import Partition
from broker.partitions.topic import largest_batch
from broker.process.environment import Environment
from coordinator.groups.commits import DeletedOffsets
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.held import Held
from coordinator.machine import Outcome, Ticket
from coordinator.runtime import NotReady
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS

SCARCE_LOOK_MS = 1_000
"""How soon unused groups are looked for when room is scarce."""


class ConfiguredGroups:
    """`GroupSettings` from the configuration, read when they are needed."""

    def __init__(
        self, config: BrokerConfig, batch_limit: Callable[[], int], own: Callable[[str], Mapping[str, str]]
    ) -> None:
        self._config = config
        self._batch_limit = batch_limit
        self.consumer = ConfiguredConsumerGroups(config, own)
        self.streams = ConfiguredStreamsGroups(config, own)
        self.share = ConfiguredShareGroups(config, own)

    @property
    def max_size(self) -> int:
        return self._config.get_int("group.max.size")

    @property
    def max_held_bytes(self) -> int:
        return self._config.get_int("tallystick.groups.max.bytes")

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

    @property
    def max_batch_bytes(self) -> int:
        return self._batch_limit()


def make_group_shards(
    *,
    config: BrokerConfig,
    environment: Environment,
    topics: TopicDirectory,
    own_configs: Callable[[str], Mapping[str, str]],
    publish: Callable[[Partition], None],
) -> Shards[GroupCoordinator]:
    """The shards of `__consumer_offsets`.

    The number of partitions is that of the topic once it exists, for it decides who keeps what.
    """
    settings = ConfiguredGroups(config, lambda: largest_batch(topics.by_name(CONSUMER_OFFSETS)), own_configs)
    followed = FollowedTopics(topics, config)

    def partition_count() -> int:
        topic = topics.by_name(CONSUMER_OFFSETS)
        return config.get_int("offsets.topic.num.partitions") if topic is None else len(topic.partitions)

    total = Held()
    held: dict[int, Held] = {}

    def make(index: int) -> GroupCoordinator:
        """Also in the place of one that was dropped."""
        if index in held:
            held[index].let_go()
        held[index] = Held(total)
        return GroupCoordinator(settings, held[index], followed)

    shards: Shards[GroupCoordinator] = Shards(
        topic=CONSUMER_OFFSETS,
        partition_count=partition_count,
        make=make,
        environment=environment,
        load_bytes=lambda: config.get_int("offsets.load.buffer.size"),
        exists=lambda: topics.by_name(CONSUMER_OFFSETS) is not None,
        publish=publish,
        led=lambda index: topics.leads(CONSUMER_OFFSETS, index),
        given_up=lambda index: held.pop(index).let_go(),
    )

    total.when_scarce = SoonRounds(shards).begin

    def leapt(by_ms: int) -> None:
        for shard in shards.all():
            shard.machine.time_leapt(by_ms)

    shards.clock.on_leap = leapt
    return shards


class SoonRounds:
    """Looks for unused groups and offsets, in all shards, some time before their next one is due."""

    def __init__(self, shards: Shards[GroupCoordinator]) -> None:
        self._shards = shards
        self._begun = False

    def begin(self) -> None:
        """Soon, and once however often it is called meanwhile."""
        if not self._begun:
            self._begun = True
            self._shards.timer.at(self._shards.clock.now_ms() + SCARCE_LOOK_MS, self._look)

    def _look(self) -> None:
        self._begun = False
        for shard in self._shards.all():
            with contextlib.suppress(NotReady):
                shard.submit(lambda machine, now_ms: machine.look_for_unused(now_ms))


async def delete_group(groups: Shards[GroupCoordinator], group_id: str) -> ErrorCode:
    """Delete a group with all its offsets, some at a time. A member that joins meanwhile keeps the group, not them."""
    begun = False
    while True:
        try:
            error = await groups.ask(
                group_id, lambda machine, ticket, now_ms: machine.delete_group(group_id, ticket, now_ms)
            )
        except CoordinatorError as refused:
            return refused.error
        if error is not None:
            # With the last of its offsets expired, it may have gone by itself.
            return ErrorCode.NONE if begun and error is ErrorCode.GROUP_ID_NOT_FOUND else error
        begun = True
        await asyncio.sleep(0)


async def delete_offsets(
    groups: Shards[GroupCoordinator], group_id: str, wanted: Sequence[tuple[str, int]]
) -> DeletedOffsets:
    """Delete offsets of a group, some at a time: one answer for each, or an error for all. Raises `CoordinatorError`
    where nothing was deleted."""
    errors: list[ErrorCode] = []

    def delete(machine: GroupCoordinator, ticket: Ticket[DeletedOffsets], now_ms: int) -> Outcome[DeletedOffsets]:
        return machine.delete_offsets(group_id, wanted, len(errors), ticket, now_ms)

    while True:
        try:
            deleted = await groups.ask(group_id, delete)
        except CoordinatorError as refused:
            if not errors:
                raise
            deleted = DeletedOffsets(refused.error, [])
        if deleted.error is not ErrorCode.NONE and not errors:
            return deleted
        if deleted.error is not ErrorCode.NONE:
            # The group is not as it was at the beginning; those that are gone are gone.
            errors.extend([deleted.error] * (len(wanted) - len(errors)))
        errors.extend(deleted.errors)
        if len(errors) >= len(wanted):
            return DeletedOffsets(ErrorCode.NONE, errors)
        await asyncio.sleep(0)
