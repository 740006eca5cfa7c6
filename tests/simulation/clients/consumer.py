"""A member of a consumer group (KIP-848): heartbeats, giving back, taking, commits with its epoch; now and then it
leaves, is away for a while under its name, dies, or sleeps longer than its session.

It takes a partition for its own from the answer that gives it until it says that it has given it back, or until it has
not been answered for so long that its session may be over.
"""

import asyncio
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import EpochCommit, Holding
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

GROUP = "consumers"
SESSION_MS = 600
"""Of the broker's setting."""
REBALANCE_MS = 60_000
TOPIC = "a"
BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)

Part = tuple[bytes, int]


async def run(world: World, plan: ClientPlan) -> None:
    """Heartbeats until it is time to finish."""
    member = ConsumerMember(world, plan)
    while not world.closing:
        await member.step()
    await member.leave(-1)


class ConsumerMember:
    """See the head of this file."""

    def __init__(self, world: World, plan: ClientPlan) -> None:
        self._world = world
        self._random = Random(plan.seed)
        self._session = Session(world, plan.name)
        self._name = plan.name
        self._session_s = world.plan.session_s(SESSION_MS)
        self._lives = 0
        self._instance = str(plan.option("instance") or "") or None
        self._assignor = str(plan.option("assignor") or "") or None
        self._begin()

    def _begin(self) -> None:
        """As a new process."""
        self._lives += 1
        self.member_id = f"{self._name}-{self._lives}"
        self._epoch = 0
        self._owned: dict[Part, Holding] = {}
        self._full = True

    # -- what it does ----------------------------------------------------------------------------------------

    async def step(self) -> None:
        """One heartbeat, and what comes of it."""
        random = self._random
        await self._beat()
        if self._owned and random.random() < 0.3:
            await self._commit(random.choice(sorted(self._owned)))
        if random.random() < 0.08:
            await self._go(random.choice(("leaves", "away", "dies", "sleeps", "sleeps", "sleeps")))
        await asyncio.sleep(random.choice((0.002, 0.01, 0.05)))

    async def _go(self, how: str) -> None:
        if how == "away" and (self._instance is None or self._epoch <= 0):
            return
        self._world.hit(f"consumers.{how}")
        if how == "leaves":
            await self.leave(-1)
            self._begin()
        elif how == "away":
            await self.leave(-2)
            self._begin()
        elif how == "sleeps":
            await asyncio.sleep(self._random.choice((0.5, 1.5, 1.5)) * SESSION_MS / 1000)
            for one in sorted(self._owned):
                # It does not know yet that others may have what it had.
                await self._commit(one)
        elif how == "dies":
            self._give_up()
            self._session.drop()
            self._begin()

    async def leave(self, epoch: int) -> None:
        """For good (-1), or for a while (-2)."""
        self._give_up()
        if self._epoch > 0:
            try:
                await self._ask(epoch, full=False)
            except NoAnswer:
                return

    def _give_up(self) -> None:
        now = self._world.scheduler.now
        for holding in self._owned.values():
            holding.end_s = min(holding.end_s, now)
        self._owned.clear()

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def _ask(self, epoch: int, *, full: bool) -> ConsumerGroupHeartbeatResponse:
        owned: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self._owned):
            owned.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._instance,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topic_names=[TOPIC] if full else None,
            server_assignor=self._assignor if full else None,
            topic_partitions=[HeartbeatTopicPartitions(topic_id=one, partitions=of) for one, of in owned.items()],
        )
        answer: ConsumerGroupHeartbeatResponse = await self._session.ask(request, 1)
        return answer

    async def _beat(self) -> None:
        sent_s = self._world.scheduler.now
        try:
            answer = await self._ask(self._epoch, full=self._full or self._epoch == 0)
        except NoAnswer:
            self._full = True
            await asyncio.sleep(0.02)
            return
        code = answer.error_code
        self._world.history.note("beat", self.member_id, self._epoch, answer.member_epoch, code)
        if code:
            self._world.hit(f"ConsumerGroupHeartbeat.error-{code}")
            self._full = True
            if code in BEGIN_ANEW:
                self._give_up()
                self._begin()
            return
        self._epoch, self._full = answer.member_epoch, False
        if answer.assignment is not None:
            self._take(answer)
        for holding in self._owned.values():
            holding.end_s = sent_s + self._session_s

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.assignment is not None
        now = self._world.scheduler.now
        given = {
            (bytes(topic.topic_id), partition)
            for topic in answer.assignment.topic_partitions
            for partition in topic.partitions
        }
        for part in [part for part in self._owned if part not in given]:
            holding = self._owned.pop(part)
            holding.end_s = min(holding.end_s, now)
            self._world.hit("consumers.gave-back")
        for part in sorted(given - self._owned.keys()):
            holding = Holding(GROUP, self.member_id, (part[0].hex(), part[1]), now, now)
            self._owned[part] = holding
            self._world.history.holdings.append(holding)
            self._world.hit("consumers.took")

    # -- commits ---------------------------------------------------------------------------------------------

    async def _commit(self, part: Part) -> None:
        """What it has read of a partition that it takes for its own, which may be another's by now."""
        sent_s = self._world.scheduler.now
        committed = OffsetCommitRequestPartition(
            partition_index=part[1], committed_offset=self._random.randrange(100), committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._epoch,
            member_id=self.member_id,
            group_instance_id=self._instance,
            topics=[OffsetCommitRequestTopic(topic_id=part[0], partitions=[committed])],
        )
        try:
            answer: Any = await self._session.ask(request, 10)
        except NoAnswer:
            return
        code = answer.topics[0].partitions[0].error_code
        self._world.history.note("epoch commit", self.member_id, self._epoch, part[1], code)
        if code:
            self._world.hit(f"epoch-commit.error-{code}")
        else:
            self._world.hit("consumers.committed")
            place = (part[0].hex(), part[1])
            self._world.history.epoch_commits.append(EpochCommit(GROUP, self.member_id, place, sent_s))
