"""Asking the cluster machine for topics of many partitions: what goes into the log is built in slices, then decided on
and appended in one turn, as one batch. What others did meanwhile may make it void; then the machine decides as usual,
and refuses.
"""

from collections.abc import Iterable

from broker.coordination.cluster import Cluster
from broker.process.environment import Environment
from coordinator.cluster.records import PartitionRecord
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import (
    Planned,
    Rules,
    creation_leaders,
    decide_creation,
    decide_growth,
    growth_leaders,
    partition_records,
    spread_of,
    topic_records,
)
from coordinator.cluster.wide_topics import WIDE, WideBatch, building
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class _Wide:
    """What both have in common."""

    def __init__(self, cluster: Cluster, environment: Environment, rules: Rules) -> None:
        self._cluster = cluster
        self._environment = environment
        self._rules = rules

    async def _built(
        self, head: Iterable[object], topic_id: bytes, partitions: Iterable[PartitionRecord], indexes: range
    ) -> WideBatch:
        steps = building(head, topic_id, partitions, indexes, self._environment.wall_ms())
        time_slice = self._environment.time_slice()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                wide: WideBatch = done.value
                return wide
            if time_slice.spent():
                await time_slice.wait_for_turn()


class WideCreations(_Wide):
    """Topics of a CreateTopics that have many partitions; see `cluster.Large`."""

    def holds(self, entry: Planned[CreatableTopic]) -> bool:
        topic, default = entry.entry, self._rules.num_partitions
        return entry.refused is None and max(len(topic.assignments), topic.num_partitions, default) >= WIDE

    async def answer(self, entry: Planned[CreatableTopic]) -> list[CreatableTopicResult]:
        topic, rules = entry.entry, self._rules
        try:
            count, configs = decide_creation(self._cluster.image, topic, rules)
        except Refused:
            return []
        topic_id, indexes = self._environment.random_bytes(16), range(count)
        spread = spread_of(self._cluster.image, rules)
        partitions = partition_records(topic_id, indexes, creation_leaders(topic, spread), spread.epoch, rules)
        wide = await self._built(topic_records(topic.name, topic_id, configs), topic_id, partitions, indexes)
        return await self._cluster.ask(lambda machine, ticket: machine.create_wide(ticket, topic, rules, wide)) or []


class WideGrowths(_Wide):
    """Topics of a CreatePartitions that get many; see `cluster.Large`."""

    def holds(self, entry: Planned[CreatePartitionsTopic]) -> bool:
        return entry.refused is None and entry.entry.count >= WIDE

    async def answer(self, entry: Planned[CreatePartitionsTopic]) -> list[CreatePartitionsTopicResult]:
        topic, rules = entry.entry, self._rules
        try:
            found = decide_growth(self._cluster.image, topic, rules)
        except Refused:
            return []
        indexes, spread = range(found.partition_count, topic.count), spread_of(self._cluster.image, rules)
        leaders = growth_leaders(found, topic, spread)
        partitions = partition_records(found.topic_id, indexes, leaders, spread.epoch, rules)
        wide = await self._built((), found.topic_id, partitions, indexes)
        return await self._cluster.ask(lambda machine, ticket: machine.grow_wide(ticket, topic, rules, wide)) or []
