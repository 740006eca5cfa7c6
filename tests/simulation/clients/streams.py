"""A member of a streams group (KIP-1071): heartbeats, giving back tasks, taking them, commits with its epoch; now and
then it leaves, dies, or sleeps longer than its session.

It takes an active task for its own from the answer that gives it until it says that it has given it back, or until it
has not been answered for so long that its session may be over. Members of one process share its state, and their
names begin alike.
"""

import asyncio
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.streams.groups import (
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsEndpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsTaskIds,
    StreamsTopicInfo,
)
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import EpochCommit, Holding
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

GROUP = "application"
CHANGELOG = "application-changelog"
SESSION_MS = 600
"""Of the broker's setting."""
REBALANCE_MS = 60_000
TOPIC = "a"
KEEPS, READS = "0", "1"
"""Subtopologies: one with state; one without."""
BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)

Task = tuple[str, int]


def topology() -> HeartbeatTopology:
    """Two subtopologies, of which one keeps state."""
    changelog = StreamsTopicInfo(name=CHANGELOG, partitions=0, replication_factor=0, topic_configs=[])
    return HeartbeatTopology(
        epoch=0,
        subtopologies=[_subtopology(READS, TOPIC, []), _subtopology(KEEPS, "b", [changelog])],
    )


def _subtopology(subtopology_id: str, source: str, changelogs: list[StreamsTopicInfo]) -> HeartbeatSubtopology:
    return HeartbeatSubtopology(
        subtopology_id=subtopology_id,
        source_topics=[source],
        source_topic_regex=[],
        state_changelog_topics=changelogs,
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )


async def run(world: World, plan: ClientPlan) -> None:
    """Heartbeats until it is time to finish."""
    member = StreamsMember(world, plan)
    while not world.closing:
        await member.step()
    await member.leave()


class StreamsMember:
    """See the head of this file."""

    def __init__(self, world: World, plan: ClientPlan) -> None:
        self._world = world
        self._random = Random(plan.seed)
        self._session = Session(world, plan.name)
        self._name = plan.name
        self._process = f"process-{plan.option('process')}"
        self._session_s = world.plan.session_s(SESSION_MS)
        self._lives = 0
        self._begin()

    def _begin(self) -> None:
        """As a new thread of its process."""
        self._lives += 1
        self.member_id = f"{self._name}-{self._lives}"
        self._epoch = 0
        self._endpoint_epoch = -1
        self._owned: dict[Task, Holding] = {}
        self._standby: list[StreamsTaskIds] = []

    # -- what it does ----------------------------------------------------------------------------------------

    async def step(self) -> None:
        """One heartbeat, and what comes of it."""
        random = self._random
        await self._beat()
        if self._owned and random.random() < 0.3:
            await self._commit(random.choice(sorted(self._owned)))
        if random.random() < 0.05:
            await self._go(random.choice(("leaves", "dies", "sleeps")))
        await asyncio.sleep(random.choice((0.002, 0.01, 0.05)))

    async def _go(self, how: str) -> None:
        self._world.hit(f"streams.{how}")
        if how == "leaves":
            await self.leave()
            self._begin()
        elif how == "sleeps":
            await asyncio.sleep(self._random.choice((0.5, 1.5)) * SESSION_MS / 1000)
            for one in sorted(self._owned):
                # It does not know yet that others may have what it had.
                await self._commit(one)
        else:
            self._give_up()
            self._session.drop()
            self._begin()

    async def leave(self) -> None:
        """For good."""
        self._give_up()
        if self._epoch > 0:
            try:
                await self._ask(-1)
            except NoAnswer:
                return

    def _give_up(self) -> None:
        now = self._world.scheduler.now
        for holding in self._owned.values():
            holding.end_s = min(holding.end_s, now)
        self._owned.clear()
        self._standby = []

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def _ask(self, epoch: int) -> StreamsGroupHeartbeatResponse:
        joins = epoch == 0
        owned: dict[str, list[int]] = {}
        for subtopology, partition in sorted(self._owned):
            owned.setdefault(subtopology, []).append(partition)
        active = [StreamsTaskIds(subtopology_id=one, partitions=of) for one, of in owned.items()]
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self._endpoint_epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            topology=topology() if joins else None,
            active_tasks=[] if joins else active,
            standby_tasks=[] if joins else self._standby,
            warmup_tasks=[],
            process_id=self._process if joins else None,
            user_endpoint=StreamsEndpoint(host=self._process, port=1) if joins else None,
        )
        answer: StreamsGroupHeartbeatResponse = await self._session.ask(request, 0)
        return answer

    async def _beat(self) -> None:
        sent_s = self._world.scheduler.now
        try:
            answer = await self._ask(self._epoch)
        except NoAnswer:
            # What it has missed is told to one that comes.
            self._epoch = 0
            self._give_up()
            await asyncio.sleep(0.02)
            return
        code = answer.error_code
        statuses = [one.status_code for one in answer.status or ()]
        self._world.history.note("task beat", self.member_id, self._epoch, answer.member_epoch, code, statuses)
        if code:
            self._world.hit(f"StreamsGroupHeartbeat.error-{code}")
            if code in BEGIN_ANEW:
                self._give_up()
                self._begin()
            return
        self._epoch, self._endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
        for status in statuses:
            self._world.hit(f"streams.status-{status}")
        if answer.active_tasks is not None:
            self._standby = list(answer.standby_tasks or ())
            self._take({(one.subtopology_id, index) for one in answer.active_tasks for index in one.partitions})
        for holding in self._owned.values():
            holding.end_s = sent_s + self._session_s

    def _take(self, given: set[Task]) -> None:
        now = self._world.scheduler.now
        if self._standby:
            self._world.hit("streams.keeps-a-copy")
        for task in [task for task in self._owned if task not in given]:
            holding = self._owned.pop(task)
            holding.end_s = min(holding.end_s, now)
            self._world.hit("streams.gave-back")
        for task in sorted(given - self._owned.keys()):
            holding = Holding(GROUP, self.member_id, task, now, now)
            self._owned[task] = holding
            self._world.history.holdings.append(holding)
            self._world.hit("streams.took")

    # -- commits ---------------------------------------------------------------------------------------------

    async def _commit(self, task: Task) -> None:
        """What it has read for a task that it takes for its own, which may be another's by now."""
        sent_s = self._world.scheduler.now
        committed = OffsetCommitRequestPartition(
            partition_index=task[1], committed_offset=self._random.randrange(100), committed_metadata=None
        )
        topic = TOPIC if task[0] == READS else "b"
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )
        try:
            answer: Any = await self._session.ask(request, 9)
        except NoAnswer:
            return
        code = answer.topics[0].partitions[0].error_code
        self._world.history.note("task commit", self.member_id, self._epoch, task, code)
        if code:
            self._world.hit(f"task-commit.error-{code}")
        else:
            self._world.hit("streams.committed")
            self._world.history.epoch_commits.append(EpochCommit(GROUP, self.member_id, task, sent_s))
