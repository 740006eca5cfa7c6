"""A transactional producer that writes to several partitions and commits or aborts. It may fall asleep in the middle of
a transaction and wake up as a zombie, or die there; then it mostly comes back under the same transactional id.
"""

import asyncio
from random import Random

from tests.simulation.clients.producer import Abortable, Fatal, TransactionalClient
from tests.simulation.clients.session import Session
from tests.simulation.history import Place
from tests.simulation.shape import MIXED, ClientPlan
from tests.simulation.world import World


async def run(world: World, plan: ClientPlan) -> None:
    """Transactions until it is time to finish."""
    random = Random(plan.seed)
    options = dict(plan.options)
    while not world.closing:
        client = TransactionalClient(
            world,
            Session(world, plan.name),
            random,
            str(options["id"]),
            random.choice((0, 2)) if options["version"] == MIXED else int(str(options["version"])),
            int(str(options["timeout_ms"])),
        )
        try:
            await client.claim()
            while not world.closing:
                if not await _one(world, client, random, options):
                    world.hit("client.died")
                    if random.random() < 0.4:
                        client.session.drop()
                        return  # for good: nobody but time ends what it has begun
                    break
                await asyncio.sleep(random.choice((0.0, 0.002, 0.02, 0.1)))
        except Fatal as fatal:
            world.hit("client.fenced")
            world.history.note("fatal", plan.name, str(fatal))
            await asyncio.sleep(random.choice((0.01, 0.1, 0.5)))
        client.session.drop()


async def _one(world: World, client: TransactionalClient, random: Random, options: dict[str, object]) -> bool:
    """One transaction; False where the client dies in it."""
    zombie, dies = float(str(options["zombie"])), float(str(options["dies"]))
    client.begin()
    sent = False
    try:
        for _ in range(random.choice((1, 1, 2, 3))):
            batches = [client.prepare(place, random.choice((1, 1, 3))) for place in _places(world, random, options)]
            sent = True
            await client.send(batches)
            if zombie and random.random() < zombie:
                world.hit("client.slept")
                await asyncio.sleep(random.choice((0.5, 2.0, 4.0)))
            if dies and random.random() < dies:
                return False
        if random.random() < 0.2:
            group = f"plain-{client.transactional_id}"
            places = _places(world, random, options) if "spread" in options else [("a", 0)]
            await client.send_offsets(group, {place: random.randrange(1000) for place in places})
        await client.end(commit=random.random() < 0.7)
    except Abortable as reason:
        world.history.note("abortable", client.session.name, str(reason))
        if sent:
            await client.abort()
    return True


def _places(world: World, random: Random, options: dict[str, object]) -> list[Place]:
    spread = options.get("spread")
    if isinstance(spread, int) and world.plan.wide is not None:
        return random.sample(world.plan.wide.places, spread)
    names = str(options["topics"])
    topics = [random.choice(names) for _ in range(random.choice((1, 1, 2, 4)))]
    return [(topic, random.randrange(world.plan.partitions)) for topic in topics]
