"""Where much is asked of a broker: a run of the simulation without faults and clients, whose turns are counted."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tallystick.client.connection import Connection
from tests.harness.network import NetworkFaults
from tests.harness.turn_work import CountingScheduler
from tests.simulation.broker_process import PORT, BrokerProcess
from tests.simulation.clients.twins import HOST
from tests.simulation.shape import Plan
from tests.simulation.simulation import run
from tests.simulation.world import World

AT_ONCE = 200
"""Requests that are sent before the first of them is answered."""

MADE_AT_ONCE = 4_000
"""Topics in one request, which allows 10 000 records of metadata."""


class Place:
    """A broker, and somebody who asks it one thing after the other."""

    def __init__(self, scheduler: CountingScheduler, broker: BrokerProcess) -> None:
        self.broker = broker
        self._scheduler = scheduler
        self._connection: Connection | None = None

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """While that is made which the story is about; a start, in which nobody is served."""
        self._scheduler.counts = False
        try:
            yield
        finally:
            self._scheduler.counts = True

    async def connect(self) -> Connection:
        return await Connection.connect(HOST, PORT, client_id="much")

    async def ask(self, request: object, version: int | None = None) -> Any:
        if self._connection is None or self._connection.is_lost:
            self._connection = await self.connect()
        return await self._connection.ask(request, version)

    async def ask_each(self, requests: Iterable[object], version: int | None = None) -> list[Any]:
        """The answers to many small requests."""
        rest, answers = list(requests), list[Any]()
        while rest:
            answers += await asyncio.gather(*(self.ask(one, version) for one in rest[:AT_ONCE]))
            rest = rest[AT_ONCE:]
        return answers

    async def find_coordinator(self, kind: int, key: str = "x") -> None:
        """Until there is one for the key: of a group (0) or a transactional id (1)."""
        while True:
            answer = await self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
            if not answer.coordinators[0].error_code:
                return
            await asyncio.sleep(0.01)

    async def make(self, *topics: CreatableTopic) -> None:
        """Topics, with their logs open."""
        for begin in range(0, len(topics), MADE_AT_ONCE):
            answer = await self.ask(CreateTopicsRequest(topics=list(topics[begin : begin + MADE_AT_ONCE])))
            assert {one.error_code for one in answer.topics} == {0}
        await self._wait_until_open()

    def stand_still(self, seconds: float) -> None:
        """As by SIGSTOP: whatever comes due meanwhile is due at once."""
        assert self.broker.loop is not None
        self.broker.loop.stand_still(seconds)

    async def restart(self) -> None:
        """As after `kill -9`; the logs are opened and loaded."""
        self.broker.kill()
        with self.uncounted():
            await self.broker.start()
        await self._wait_until_open()

    async def _wait_until_open(self) -> None:
        node = self.broker.node
        assert node is not None
        while node.services.topics.to_open.any_left:
            await asyncio.sleep(0.001)


def told(story: Callable[[Place], Awaitable[None]], **settings: str) -> list[str]:
    """What was wrong with a story; every turn of the broker that was too long is.."""
    scheduler = CountingScheduler(by_work=True)

    async def life(world: World, broker: BrokerProcess) -> None:
        await broker.start()
        await story(Place(scheduler, broker))

    plan = Plan(
        seed=1,
        duration_s=0.0,
        segment_bytes=1 << 20,
        sync_s=0.0005,
        network=NetworkFaults(delay_s=0.0001),
        final="",
        settings=tuple(settings.items()),
    )
    return run(plan, life, scheduler).violations


def topic(name: str, partitions: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
