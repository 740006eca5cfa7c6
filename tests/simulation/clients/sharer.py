"""A member of a share group (KIP-932): heartbeats, a session with each node that leads what it reads, and something to
say of what it is handed there; now and then it leaves, dies, or sleeps until others have what it had.
"""

import asyncio
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.share.groups import ShareGroupHeartbeatRequest
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.clients.share_session import ACCEPT, GAP, GROUP, Part, ShareSession
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

TOPIC = "a"
SESSION_MS = 600
"""Of the broker's setting."""
LOCK_MS = 1_000
"""The least that a group may set."""
MOST_DELIVERIES = 25
"""The most that a group may set: no record of a run is handed out so often."""
BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


async def run(world: World, plan: ClientPlan) -> None:
    """Take part until it is time to finish."""
    member = Sharer(world, plan.name, plan.seed)
    while not world.closing:
        await member.step()
    await member.leave()
    member.close()


class Sharer:
    """See the head of this file."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self._world = world
        self._random = Random(seed)
        self._session = Session(world, name)
        self._name = name
        self._lives = 0
        self._begin()

    def _begin(self) -> None:
        """As a new process."""
        self._lives += 1
        self.member_id = f"{self._name}-{self._lives}"
        self._epoch = 0
        self._assigned: set[Part] = set()
        nodes = sorted(self._world.ports) or [0]
        self._with: dict[int, ShareSession] = {
            node: ShareSession(self._world, self._session, self._random, self.member_id, node) for node in nodes
        }

    def _forget_sessions(self) -> None:
        for one in self._with.values():
            one.forget()

    # -- what it does ----------------------------------------------------------------------------------------

    async def step(self) -> None:
        """A heartbeat now and then, a fetch, and something to say."""
        random = self._random
        if not self._epoch or random.random() < 0.3:
            await self._beat()
        await self._find_leaders()
        nodes = [one for one in self._with.values() if one.reads]
        if nodes:
            node = nodes[0] if len(self._with) == 1 else random.choice(nodes)
            await node.fetch(node.draw(0.5) if node.is_open else {})
        for node in [one for one in self._with.values() if one.is_open]:
            if random.random() < 0.7:
                await node.say(node.draw(0.8))
        if random.random() < 0.05:
            await self._go(random.choice(("leaves", "dies", "sleeps")))
        await asyncio.sleep(random.choice((0.002, 0.01, 0.05)))

    async def _find_leaders(self) -> None:
        """Of several nodes each is asked for what it leads, as far as is known."""
        led: dict[int, set[Part]] = {node: set() for node in self._with}
        for part in sorted(self._assigned):
            try:
                led[await self._session.leader((self._world.topic_names[part[0]], part[1]))].add(part)
            except NoAnswer:
                continue
        for node, parts in led.items():
            self._with[node].assign(parts, lost=self._assigned - parts)

    async def _go(self, how: str) -> None:
        self._world.hit(f"sharers.{how}")
        if how == "leaves":
            await self.leave()
            self._begin()
        elif how == "dies":
            self._session.drop()
            self._begin()
        else:
            await asyncio.sleep(self._random.choice((0.5, 1.5)) * LOCK_MS / 1000)

    async def leave(self) -> None:
        """With a last word, or without."""
        for node in self._with.values():
            if node.is_open:
                await node.say(node.draw(0.5), final=True)
        if self._epoch > 0:
            try:
                await self._heartbeat(-1)
            except NoAnswer:
                return

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def _heartbeat(self, epoch: int) -> Any:
        names = [TOPIC] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=names
        )
        return await self._session.ask(request, 1)

    async def _beat(self) -> None:
        try:
            answer = await self._heartbeat(self._epoch)
        except NoAnswer:
            self._epoch = 0  # what it has missed is told to one that comes
            self._forget_sessions()
            await asyncio.sleep(0.02)
            return
        code = answer.error_code
        self._world.history.note("share beat", self.member_id, self._epoch, answer.member_epoch, code)
        if code:
            self._world.hit(f"ShareGroupHeartbeat.error-{code}")
            if code in BEGIN_ANEW:
                self._begin()
            return
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self._assigned = {(bytes(topic.topic_id), index) for topic in topics for index in topic.partitions}
            if self._assigned:
                self._world.hit("sharers.assigned")

    # -- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more is asked."""
        self._session.drop()

    async def accept_all(self, partitions: int) -> bool:
        """One more heartbeat, and accept what there is. Whether there was nothing in any of so many partitions."""
        await self._beat()
        await self._find_leaders()
        if sum(one.reads for one in self._with.values()) < partitions:
            return False
        nothing = True
        for node in [one for one in self._with.values() if one.reads]:
            found = await node.fetch({}, wait_ms=0)
            spoken: dict[Part, dict[int, int]] = {
                where: {at: ACCEPT if at in handing.records else GAP for at, handing in held.items()}
                for where, held in node.held.items()
                if held
            }
            if spoken:
                await node.say(spoken)
            nothing = nothing and found == 0
        return nothing
