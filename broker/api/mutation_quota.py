"""Requests that make and delete partitions, where there is a quota for that: what of them goes on (KIP-599)."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from broker.api.context import RequestContext
from broker.api.services import WithCluster, WithEnvironment, WithTopics
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.mutations import partitions_added, partitions_deleted, partitions_made
from coordinator.cluster.topic_deletion import plan_deletion
from coordinator.cluster.topics import Planned, Rules, plan_creation, plan_growth
from protocol.errors import ErrorCode
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    DeletableTopicResult,
    DeleteTopicState,
)

CREATE_STRICT_SINCE, DELETE_STRICT_SINCE, GROW_STRICT_SINCE = 6, 5, 3
"""The versions whose clients know THROTTLING_QUOTA_EXCEEDED. Those of others are let through, and silenced."""

T = TypeVar("T", CreatableTopic, DeleteTopicState, CreatePartitionsTopic)


class MutationServices(WithCluster, WithEnvironment, WithTopics, Protocol):
    """What this uses of the node."""


async def creations_within_quota(
    services: MutationServices, context: RequestContext, topics: Sequence[CreatableTopic]
) -> tuple[Sequence[CreatableTopic], list[CreatableTopicResult]]:
    """(topics that may be made, results of the others)."""
    if context.charge is None:
        return topics, []
    rules = services.topics.rules()
    planned = plan_creation(services.cluster.image, topics, rules)
    strict = context.api_version >= CREATE_STRICT_SINCE
    refused = await _refused(services, context, planned, rules, partitions_made, strict=strict)
    names = {topic.name for topic in refused}
    return [topic for topic in topics if topic.name not in names], [
        CreatableTopicResult(
            name=topic.name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=None, configs=[]
        )
        for topic in refused
    ]


async def growths_within_quota(
    services: MutationServices, context: RequestContext, topics: Sequence[CreatePartitionsTopic]
) -> tuple[Sequence[CreatePartitionsTopic], list[CreatePartitionsTopicResult]]:
    """(topics that may grow, results of the others)."""
    if context.charge is None:
        return topics, []
    planned, strict = plan_growth(topics), context.api_version >= GROW_STRICT_SINCE
    refused = await _refused(services, context, planned, services.topics.rules(), partitions_added, strict=strict)
    names = {topic.name for topic in refused}
    return [topic for topic in topics if topic.name not in names], [
        CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        for topic in refused
    ]


async def deletions_within_quota(
    services: MutationServices, context: RequestContext, topics: Sequence[DeleteTopicState]
) -> tuple[Sequence[DeleteTopicState], list[DeletableTopicResult]]:
    """(entries whose topics may be deleted, results of the others)."""
    if context.charge is None:
        return topics, []
    image = services.cluster.image
    planned, strict = plan_deletion(image, topics), context.api_version >= DELETE_STRICT_SINCE
    refused = await _refused(services, context, planned, services.topics.rules(), partitions_deleted, strict=strict)
    named = {(one.name, one.topic_id) for one in refused}
    return [one for one in topics if (one.name, one.topic_id) not in named], [
        _not_deleted(image, one) for one in refused
    ]


def _not_deleted(image: ClusterImage, state: DeleteTopicState) -> DeletableTopicResult:
    """As Kafka answers, with the name and the id."""
    topic = image.by_id.get(state.topic_id) if state.name is None else image.topics.get(state.name)
    return DeletableTopicResult(
        name=state.name if topic is None else topic.name,
        topic_id=state.topic_id if topic is None else topic.topic_id,
        error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    )


async def _refused(
    services: MutationServices,
    context: RequestContext,
    planned: Sequence[Planned[T]],
    rules: Rules,
    count: Callable[[ClusterImage, Planned[T], Rules], int],
    *,
    strict: bool,
) -> list[T]:
    """Charge each entry that would be done, in their order; returns those that are too much now."""
    charge, image, time_slice = context.charge, services.cluster.image, services.environment.time_slice()
    assert charge is not None
    refused: list[T] = []
    for one in planned:
        partitions = count(image, one, rules)
        if partitions and not charge.may_change(partitions, strict=strict):
            refused.append(one.entry)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return refused
