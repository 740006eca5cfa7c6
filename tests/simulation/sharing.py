"""A share group in a run: how it is set, and who accepts what is left when all is over."""

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.share.offsets import (
    DescribeOffsetsGroup,
    DescribeOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
)
from tests.simulation.clients.session import Session
from tests.simulation.clients.share_session import GROUP
from tests.simulation.clients.sharer import LOCK_MS, MOST_DELIVERIES, SESSION_MS, TOPIC, Sharer
from tests.simulation.shape import Plan
from tests.simulation.world import World

GROUP_RESOURCE = 32
AWAY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""A share coordinator, for now."""
LOOK_EVERY_S = SESSION_MS / 12_000
"""Several times in a session, on any clock."""
QUIET_LOOKS = int(2.4 * LOCK_MS / 1000 / LOOK_EVERY_S)
"""So many looks that bring nothing: what somebody had has come back in that time."""


def settings(plan: Plan) -> dict[str, str]:
    """Those of the broker."""
    return {
        "group.share.min.session.timeout.ms": "100",
        "group.share.session.timeout.ms": str(SESSION_MS),
        "group.share.assignment.interval.ms": "0",
        "group.share.initialize.retry.interval.ms": "200",
        "group.share.min.record.lock.duration.ms": str(LOCK_MS),
        "group.share.max.delivery.count.limit": str(MOST_DELIVERIES),
        "share.coordinator.state.topic.num.partitions": str(plan.internal_partitions),
    }


async def set_up(world: World, session: Session) -> None:
    """The group begins at the start, and gives nothing up before the end of the run."""
    wanted = {
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": str(MOST_DELIVERIES),
        "share.record.lock.duration.ms": str(LOCK_MS),
        "share.isolation.level": "read_committed" if world.history.shares == "committed" else "read_uncommitted",
    }
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
        for name, value in wanted.items()
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs
    )
    answer = await session.insist(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert not answer.responses[0].error_code, answer.responses[0].error_message


async def accept_the_rest(world: World, patience_s: float) -> None:
    """One more member accepts all that it is handed, until there is nothing any more."""
    member = Sharer(world, "last-sharer", world.plan.seed)
    await _until_told_what_is_kept(world, world.scheduler.now + patience_s)
    deadline, looks = world.scheduler.now + patience_s, 0
    while looks < QUIET_LOOKS:
        looks = looks + 1 if await member.accept_all(world.plan.partitions) else 0
        if world.scheduler.now > deadline:
            text = "records of the share group cannot be read to their end though everything healed"
            world.history.violation(text, of_promise=True)  # what was initialised may be lost with the page cache
            break
        await asyncio.sleep(LOOK_EVERY_S if looks else 0.01)
    await member.leave()
    member.close()


async def _until_told_what_is_kept(world: World, deadline_s: float) -> None:
    """A share coordinator that is still loading hands out nothing, however often one looks."""
    session = Session(world, "last")
    topic = DescribeOffsetsTopic(topic_name=TOPIC, partitions=list(range(world.plan.partitions)))
    request = DescribeShareGroupOffsetsRequest(groups=[DescribeOffsetsGroup(group_id=GROUP, topics=[topic])])
    while world.scheduler.now < deadline_s:
        (group,) = (await session.insist(request, 1)).groups
        told = [one.error_code for topic in group.topics for one in topic.partitions]
        if not AWAY.intersection([group.error_code, *told]):
            break
        await asyncio.sleep(LOOK_EVERY_S)
    session.drop()
