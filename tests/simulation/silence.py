"""A long silence behind all else, in the runs that have one: what nobody uses grows old and is forgotten, however often
the broker ends meanwhile, and nothing is forgotten before its time (I18, I33, I40).

The broker comes back once with settings under which ages are reached in a minute or so. Some clients
(`tests.simulation.clients.silent`) use something once more, are silent, and come back. Meanwhile the broker is asked
what it remembers, by requests that make nothing younger. All ages are measured by its own clock, which is right by now.
Of several nodes one ends, or all do, and what it led goes to others meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from tests.harness.environment import WallClock
from tests.simulation import ending
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.clients.sending import clients_ms
from tests.simulation.clients.session import Session
from tests.simulation.clients.silent import Silence, SilentClient, SilentOffsets, SilentProducer
from tests.simulation.clients.silent_transactions import SilentId, SilentTransaction
from tests.simulation.faults import Faults
from tests.simulation.history import Forgetting
from tests.simulation.shape import FaultPlan
from tests.simulation.world import World

KINDS: tuple[Callable[[Silence, Random], SilentClient], ...] = (
    SilentOffsets,
    SilentProducer,
    SilentId,
    SilentTransaction,
)
SILENT = ("forgot-offsets", "forgot-producer", "forgot-id", "kept-offsets", "kept-producer", "kept-id", "kept-open")
"""What a run of some hundred seeds is to have seen."""


async def keep(world: World, broker: BrokerProcess, faults: Faults) -> None:
    """Everything that happens in the silence of a plan, if it has one."""
    plan = world.plan.silence
    if plan is None:
        return
    session = Session(world, "last")
    await ending.wait_until_no_transaction_is_open(world, broker, session)
    await ending.read_offsets(world, session)  # some of them are about to be forgotten
    session.drop()
    _agree(broker.each())
    for one in broker.each():
        one.settings.update(plan.settings)
    await faults.finally_end(plan.first)
    clock = broker.each()[0].clock
    silence = Silence(world, clock, faults.lives, dict(plan.settings))
    expiration_ms = silence.setting("producer.id.expiration.ms")
    world.history.silence = Forgetting(world.scheduler.now, expiration_ms, partial(age_of_producer_ms, clock))
    random = Random(plan.seed)
    clients = [make(silence, Random(random.random())) for make in KINDS if random.random() < 0.75]
    for client in clients:
        await client.begin()
    world.history.note("silence")
    began_s = world.scheduler.now
    for at_s, end in _in_order(plan.ends, (*plan.looks_s, plan.span_s)):
        await asyncio.sleep(max(0.0, began_s + at_s - world.scheduler.now))
        if end is not None:
            await faults.end_in_silence(end)
            continue
        for client in clients:
            await client.look()
    faults.disarm()
    await faults.wait_until_serving()
    world.history.steps_ahead.append(world.history.note("silence is over"))
    for client in clients:
        await client.come_back()
        client.session.drop()


def _agree(brokers: Sequence[BrokerProcess]) -> None:
    """Somebody sets their clocks right, and those of several to the same time: one that is ahead stays so."""
    for one in brokers:
        one.clock.heal()
    latest_ms = max(one.clock.now_ms() for one in brokers)
    for one in brokers:
        one.clock.step(latest_ms - one.clock.now_ms())


def age_of_producer_ms(clock: WallClock, used_s: float, asked_s: float) -> int:
    """How old a producer is for the broker. What its clients' batches say counts as seen, too, where its own clock was
    behind theirs."""
    return clock.at_ms(asked_s) - max(clock.at_ms(used_s), clients_ms(used_s))


def _in_order(ends: tuple[FaultPlan, ...], looks_s: tuple[float, ...]) -> list[tuple[float, FaultPlan | None]]:
    """Ends of the broker and, as None, looks, by their times."""
    events: list[tuple[float, FaultPlan | None]] = [(end.at_s, end) for end in ends]
    events += [(at_s, None) for at_s in looks_s]
    return sorted(events, key=lambda event: event[0])
