"""The topics of this node, and asking for changes of them: topics that are made, grown and deleted.

A change is decided by the cluster machine where this node leads the metadata, and else asked of the node that does
(`across_nodes.forwarding`). It is answered when what it made can be used here.
"""

import asyncio
from collections.abc import Sequence

from broker.config.internal_topics import PARTITION_COUNTS, internal_configs
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.known_topics import KnownTopics
from broker.coordination.wide_requests import WideCreations, WideGrowths
from broker.partitions.topic import Topic
from coordinator.cluster.topic_deletion import plan_deletion
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST
from coordinator.cluster.topics import Rules, plan_creation, plan_growth
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    DeletableTopicResult,
    DeleteTopicState,
)

LONG_S = 5.0
"""What a request waits for the topics that it makes on the way: answers go out in the order of requests, so all that
comes behind it on its connection waits, too. Where no more can be written that may be long; Kafka does not wait."""


class TopicDirectory(KnownTopics):
    """See the head of this file."""

    def rules(self) -> Rules:
        """What the cluster machine has to know of this broker's configuration, now."""
        config = self._config
        return Rules(
            node_id=config.node_id,
            leader_epoch=self._cluster.epoch,
            is_alone=self._nodes.is_alone,
            layers=config.layers,
            num_partitions=config.get_int("num.partitions"),
            longest_name=self._store.longest_topic_name(),
            directory=self._directory,
            strict=config.get_bool("tallystick.strict.replication.factor"),
            deletion_enabled=config.get_bool("delete.topic.enable"),
            internal_configs=internal_configs(config),
        )

    async def create(
        self, topics: Sequence[CreatableTopic], *, validate_only: bool = False
    ) -> list[CreatableTopicResult]:
        """Make topics; returns one result for each name, when what was made can be used. Raises `CoordinatorError`."""
        _check_size(topics)
        if self._controller is not None and not self._cluster.leads:
            decided = await self._controller.create(topics, validate_only=validate_only)
            if decided is not None:
                return decided
        names = [topic.name for topic in topics]
        await self._leaving.wait_until_removed(names)
        rules = self.rules()
        results = await self._cluster.ask_in_slices(
            plan_creation(self._cluster.image, topics, rules),
            lambda machine, ticket, planned, spent: machine.create_topics(
                ticket,
                planned,
                rules,
                fresh_id=lambda: self._environment.random_bytes(16),
                validate_only=validate_only,
                spent=spent,
            ),
            large=None if validate_only else WideCreations(self._cluster, self._environment, rules),
        )
        await self._leaving.wait_until_removed(names)
        await self.wait_until_open([topic for one in results if (topic := self._by_id.get(one.topic_id)) is not None])
        return results

    async def delete(self, topics: Sequence[DeleteTopicState]) -> list[DeletableTopicResult]:
        """Delete topics; returns one result for each entry, when the names are free. Raises `CoordinatorError`."""
        _check_size(topics)
        if self._controller is not None and not self._cluster.leads:
            decided = await self._controller.delete(topics)
            if decided is not None:
                return decided
        rules = self.rules()
        results = await self._cluster.ask_in_slices(
            plan_deletion(self._cluster.image, topics),
            lambda machine, ticket, planned, spent: machine.delete_topics(ticket, planned, rules, spent=spent),
        )
        await self._leaving.wait_until_removed([one.name for one in results if one.name is not None])
        return results

    async def grow(
        self, topics: Sequence[CreatePartitionsTopic], *, validate_only: bool = False
    ) -> list[CreatePartitionsTopicResult]:
        """Add partitions; returns one result for each name, when they can be used. Raises `CoordinatorError`."""
        _check_size(topics)
        if self._controller is not None and not self._cluster.leads:
            decided = await self._controller.grow(topics, validate_only=validate_only)
            if decided is not None:
                return decided
        rules = self.rules()
        results = await self._cluster.ask_in_slices(
            plan_growth(topics),
            lambda machine, ticket, planned, spent: machine.create_partitions(
                ticket, planned, rules, validate_only=validate_only, spent=spent
            ),
            large=None if validate_only else WideGrowths(self._cluster, self._environment, rules),
        )
        await self._leaving.wait_until_removed([one.name for one in results])
        await self.wait_until_open([topic for one in results if (topic := self._by_name.get(one.name)) is not None])
        return results

    async def auto_create_all(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Make topics that are missing, in one request, which has the limits of any other: all of them or none if they
        are too many. NONE for those that can be used, no matter who made them."""
        if len(names) > MOST_RECORDS_PER_REQUEST:
            return dict.fromkeys(names, ErrorCode.POLICY_VIOLATION)
        counts = {name: self._config.get_int(PARTITION_COUNTS[name]) for name in names if name in INTERNAL_TOPICS}
        wanted = [
            CreatableTopic(
                name=name, num_partitions=counts.get(name, -1), replication_factor=1, assignments=[], configs=[]
            )
            for name in names
        ]
        try:
            results = await self.create(wanted)
        except CoordinatorError as refused:
            return dict.fromkeys(names, refused.error)
        return {result.name: await self._made(result) for result in results}

    async def _made(self, result: CreatableTopicResult) -> ErrorCode:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and result.name in self._cluster.image.topics:
            topic = self._by_name.get(result.name)
            if topic is None:
                return ErrorCode.LEADER_NOT_AVAILABLE
            await self.wait_until_open([topic])
            return ErrorCode.NONE
        return ErrorCode(result.error_code)

    async def made_on_the_way(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """As `auto_create_all`, for a request that is about something else: `LEADER_NOT_AVAILABLE` for what is not
        there within `LONG_S`. It is made all the same, and whoever asks for it meanwhile begins no second one."""
        if len(names) > MOST_RECORDS_PER_REQUEST:
            return await self.auto_create_all(names)
        fresh = [name for name in names if name not in self._on_the_way]
        if fresh:
            making = self._own(self.auto_create_all(fresh))
            self._on_the_way.update(dict.fromkeys(fresh, making))
            making.add_done_callback(lambda _: [self._on_the_way.pop(name) for name in fresh])
        tasks = {name: self._on_the_way[name] for name in names}
        await asyncio.wait(set(tasks.values()), timeout=LONG_S)
        return {
            name: making.result()[name] if making.done() and not making.cancelled() else ErrorCode.LEADER_NOT_AVAILABLE
            for name, making in tasks.items()
        }

    async def ensure_internal(self, name: str) -> Topic:
        """The internal topic of this name with all its partitions open, made if there is none. Raises
        `CoordinatorError`, COORDINATOR_NOT_AVAILABLE where that is not so within twice `LONG_S`."""
        assert name in INTERNAL_TOPICS
        topic = self._by_name.get(name)
        if topic is None:
            error = (await self.made_on_the_way([name]))[name]
            topic = self._by_name.get(name)
            if topic is None:
                is_late = error in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
                raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE if is_late else error)
        try:
            await asyncio.wait_for(self.wait_until_open([topic]), LONG_S)
        except TimeoutError:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from None
        if topic.partitions.first_closed() is not None:  # the node stops: a shard over a closed partition knows nothing
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return topic


def _check_size(entries: Sequence[object]) -> None:
    if len(entries) > MOST_RECORDS_PER_REQUEST:
        raise CoordinatorError(ErrorCode.POLICY_VIOLATION)
