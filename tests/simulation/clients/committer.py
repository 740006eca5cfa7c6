"""A consumer without a group's members: it commits offsets, each farther than the last, and fetches them."""

import asyncio
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import Commit
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World


async def run(world: World, plan: ClientPlan) -> None:
    """Commit until it is time to finish."""
    random = Random(plan.seed)
    committer = Committer(world, Session(world, plan.name), f"simple-{plan.option('number')}")
    while not world.closing:
        partition = random.randrange(world.plan.partitions)
        try:
            if random.random() < 0.7:
                await committer.commit(partition, random.randrange(1, 10))
            else:
                await committer.look(partition)
        except NoAnswer:
            await asyncio.sleep(0.02)
        await asyncio.sleep(random.choice((0.002, 0.02, 0.2)))


class Committer:
    """See the head of this file."""

    def __init__(self, world: World, session: Session, group: str) -> None:
        self._world = world
        self._session = session
        self._group = group

    def _known(self, partition: int) -> Commit:
        return self._world.history.commits.setdefault((self._group, "a", partition), Commit())

    async def commit(self, partition: int, step: int) -> None:
        known = self._known(partition)
        known.sent = max(known.sent, 0) + step
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=known.sent, committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            member_id="",
            topics=[OffsetCommitRequestTopic(name="a", partitions=[committed])],
        )

        def promised(again: Any) -> None:
            if not again.topics[0].partitions[0].error_code:
                known.acked = known.sent

        answer = await self._session.ask(request, 8, promised=promised)
        code = answer.topics[0].partitions[0].error_code
        self._world.history.note("committed", self._group, partition, known.sent, code)
        if code:
            self._world.hit(f"OffsetCommit.error-{code}")
        else:
            self._world.hit("offsets.committed")
            known.acked = known.sent

    async def look(self, partition: int) -> None:
        """It stands where it was last committed, or at one of those nobody answered; it may have expired."""
        known = self._known(partition)
        request = OffsetFetchRequest(
            group_id=self._group, topics=[OffsetFetchRequestTopic(name="a", partition_indexes=[partition])]
        )
        answer = await self._session.ask(request, 7)
        if answer.error_code:
            return
        found = answer.topics[0].partitions[0]
        self._world.history.note("offset", self._group, partition, found.committed_offset, found.error_code)
        if found.error_code != ErrorCode.NONE or (found.committed_offset < 0 and self._world.history.forgets_offsets):
            return
        if not known.acked <= found.committed_offset <= known.sent:
            self._world.history.violation(
                f"{self._group} stands at {found.committed_offset} in a-{partition}; {known.acked} was acknowledged and"
                f" {known.sent} sent",
                of_promise=True,
            )
