"""A producer without a producer id: several batches in flight, repeated when their answer is missing or a refusal that
passes, in whatever order that makes. With acks=0 there are no answers, and nothing is repeated. It ends each
connection in order behind what it has sent, and waits for no answer.
"""

import asyncio
from random import Random
from typing import Any

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.clients.sending import Batch, encode_batch, now_ms
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

ATTEMPTS = 3
OF_A_CONNECTION = 4
"""How often it writes to one."""
NOBODY = (-1, -1)


async def run(world: World, plan: ClientPlan) -> None:
    """Write until it is time to finish."""
    random = Random(plan.seed)
    producer = Producer(world, Session(world, plan.name), random, plan)
    while not world.closing:
        await producer.burst()
        await asyncio.sleep(random.choice((0.002, 0.02, 0.1)))


class Producer:
    """See the head of this file."""

    def __init__(self, world: World, session: Session, random: Random, plan: ClientPlan) -> None:
        options = dict(plan.options)
        self._world = world
        self._session = session
        self._random = random
        self._name = plan.name
        self._topic = str(options["topic"])
        self._acks = int(str(options["acks"]))
        self._in_flight = int(str(options["in_flight"]))
        self._version = random.choice((7, 9, 12))
        self._sent = 0

    async def burst(self) -> None:
        """As many batches as may be in flight, and those that failed once more."""
        batches = [self._batch() for _ in range(self._in_flight)]
        for _ in range(ATTEMPTS):
            answers = [(batch, await self._send(batch)) for batch in batches]
            self._sent += 1
            if self._sent % OF_A_CONNECTION == 0:
                self._session.drop()
            batches = [batch for batch, answer in answers if not await self._take(batch, answer)]
            if self._acks == 0:
                self._world.hit("produce.acks=0")
            if self._acks == 0 or not batches:
                return
            await asyncio.sleep(0.02)

    def _batch(self) -> Batch:
        place = (self._topic, self._random.randrange(self._world.plan.partitions))
        writes = [
            self._world.history.write(self._name, place, producer=NOBODY, sequence=-1, acks=self._acks)
            for _ in range(self._random.choice((1, 1, 3)))
        ]
        data = encode_batch(writes, now_ms=now_ms(self._world), transactional=False, base_sequence=-1)
        return Batch(place, writes, data)

    async def _send(self, batch: Batch) -> "asyncio.Future[Any] | None":
        data = PartitionProduceData(index=batch.place[1], records=batch.data)
        request = ProduceRequest(
            transactional_id=None,
            acks=self._acks,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=batch.place[0], partition_data=[data])],
        )
        world = self._world

        def repeated(sent: bool) -> None:
            batch.on_the_way(world.scheduler.now, sent=sent)

        batch.on_the_way(world.scheduler.now, sent=True)
        try:
            if self._acks:
                return await self._session.begin(request, self._version, again=world.plan.repeat, repeated=repeated)
            await self._session.tell(request, self._version)
        except NoAnswer:
            await asyncio.sleep(0.01)
        return None

    async def _take(self, batch: Batch, answer: "asyncio.Future[Any] | None") -> bool:
        if answer is None:
            return False
        try:
            result = (await self._session.finish(answer)).responses[0].partition_responses[0]
        except NoAnswer:
            return False
        history = self._world.history
        history.note("produced plainly", self._name, batch.place, batch.writes[0].number, result.error_code,
                     result.base_offset)  # fmt: skip
        self._world.hit(f"produce.acks={self._acks}")
        return batch.take(result, history)
