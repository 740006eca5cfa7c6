"""Consume, transform, produce: a member of a group that makes one output of each input, and commits the offsets of its
inputs in the transaction of its outputs (KIP-447).
"""

import asyncio
from random import Random

from tests.simulation.clients.member import Member
from tests.simulation.clients.producer import Abortable, Fatal, TransactionalClient
from tests.simulation.clients.reader import Reader
from tests.simulation.clients.session import Session
from tests.simulation.history import Place
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

GROUP = "workers"


class Worker:
    """See the head of this file."""

    def __init__(self, world: World, plan: ClientPlan) -> None:
        options = dict(plan.options)
        self._world = world
        self._random = random = Random(plan.seed)
        self._plan = plan
        self._zombie = float(str(options["zombie"]))
        places = [("a", partition) for partition in range(world.plan.partitions)]
        session_timeout_ms = random.choice((300, 1000))
        self._member = Member(
            world,
            Session(world, f"{plan.name}-member-0"),
            GROUP,
            places,
            session_timeout_ms,
            str(options.get("instance") or "") or None,
        )
        self._restarts = Random(f"restarts {plan.seed}")
        self._reader = Reader(
            world, Session(world, f"{plan.name}-reader-0"), [], committed_only=True, with_session=random.random() < 0.5
        )
        self._producer = self._new_producer()
        self._claimed = False

    def _new_producer(self) -> TransactionalClient:
        options = dict(self._plan.options)
        return TransactionalClient(
            self._world,
            Session(self._world, self._plan.name),
            self._random,
            f"id-{self._plan.name}",
            int(str(options["version"])),
            int(str(options["timeout_ms"])),
        )

    async def run(self) -> None:
        """Generation after generation, until it is time to finish."""
        while not self._world.closing:
            if self._member.instance and self._member.member_id and self._restarts.random() < 0.5:
                self._member.begin_anew()
            owned = await self._member.join()
            if owned is None:
                continue
            try:
                await self._generation(owned)
            except Fatal as fatal:
                self._world.hit("worker.fenced")
                self._world.history.note("fatal", self._plan.name, str(fatal))
                self._producer.session.drop()
                self._producer = self._new_producer()
                self._claimed = False
                await asyncio.sleep(0.01)
        await self._member.leave()

    async def _generation(self, owned: list[Place]) -> None:
        if not self._claimed:
            await self._producer.claim()
            self._claimed = True
        positions = await self._member.positions(owned)
        if positions is None:
            return
        self._reader.seek(positions)
        while not self._world.closing and await self._member.beat():
            if not owned:
                await asyncio.sleep(0.05)
                continue
            found = await self._reader.poll(max_wait_ms=50)
            if not found:
                continue
            if not await self._process(found):
                positions = await self._member.positions(owned)
                if positions is None:
                    return
                self._reader.seek(positions)

    async def _process(self, found: list[tuple[Place, int, int]]) -> bool:
        """One transaction; False where it was aborted."""
        random, producer = self._random, self._producer
        producer.begin()
        sent = False
        try:
            batches = [
                producer.prepare(("out", random.randrange(self._world.plan.partitions)), 1, source=(place, offset))
                for place, offset, _ in found
            ]
            sent = True
            await producer.send(batches)
            await self._perhaps_sleep()
            offsets = {place: self._reader.positions[place] for place, _, _ in found}
            member = self._member
            await producer.send_offsets(
                GROUP, offsets, generation=member.generation, member=member.member_id, instance=member.instance
            )
            await self._perhaps_sleep()
            commit = random.random() < 0.9
            await producer.end(commit=commit)
        except Abortable as reason:
            self._world.history.note("abortable", self._plan.name, str(reason))
            if sent:
                await producer.abort()
            return False
        else:
            if commit:
                self._world.hit("worker.processed")
            return commit

    async def _perhaps_sleep(self) -> None:
        if self._zombie and self._random.random() < self._zombie:
            self._world.hit("worker.slept")
            await asyncio.sleep(self._random.choice((0.5, 2.0, 4.0)))


async def run(world: World, plan: ClientPlan) -> None:
    await Worker(world, plan).run()
