"""One run of several nodes over one store: the clients and checkers of one broker, which find the right node."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from coordinator.cluster.keys.broker_keys import RACK_AWARE
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.harness.environment import WallClock
from tests.harness.loop import Scheduler
from tests.harness.network import NetworkFaults
from tests.simulation import ending, silence, simulation
from tests.simulation.broker_process import PORT, BrokerProcess, listening_at
from tests.simulation.clients.session import Session
from tests.simulation.faults import Faults
from tests.simulation.nodes.faults import NodeFaults, OneNode
from tests.simulation.nodes.plan import SESSION_MS, draw_several
from tests.simulation.nodes.router import has_racks, rack_of
from tests.simulation.nodes.standby import StoreWithStandby
from tests.simulation.nodes.way import WayToStore
from tests.simulation.simulation import Result
from tests.simulation.stored import Line, ahead_bytes, draw_line
from tests.simulation.world import World

NODES = 3
AT_REST_S = 3.0
"""After which everybody knows who leads what, where nothing goes wrong."""


class Brokers:
    """All nodes of a run where `tests.simulation.ending` looks at one broker."""

    def __init__(self, nodes: list[OneNode]) -> None:
        self._nodes = nodes

    def each(self) -> list[BrokerProcess]:
        return [one.broker for one in self._nodes]

    @property
    def clock(self) -> "Brokers":
        return self

    def heal(self) -> None:
        """Set right all clocks that are behind."""
        for one in self.each():
            one.clock.heal()


def run_several(seed: int, nodes: int = NODES, *, line: Line | None = None) -> Result:
    """The run of a seed."""
    plan = draw_several(seed, nodes)
    return simulation.run(plan, life_of(nodes, draw_line(seed) if line is None else line), Scheduler())


def life_of(nodes: int, line: Line) -> Callable[[World, BrokerProcess], Coroutine[Any, Any, None]]:
    """All of a plan, from the first start to the last look."""
    return partial(_live, nodes, line)


async def _live(count: int, line: Line, world: World, first: BrokerProcess) -> None:
    world.history.ids_grow = False
    world.history.circumstances = replace(world.history.circumstances, reads_behind=has_racks(world.plan.seed))
    now_ms, keeps_apart = lambda: int(world.scheduler.now * 1000), line.bucket is not None
    store = StoreWithStandby(now_ms, world.history.violation, keeps_apart=keeps_apart, hit=world.hit)
    nodes = _nodes(count, line, world, first, store)
    faults = NodeFaults(world, nodes, store)
    await asyncio.gather(*(one.broker.start() for one in nodes))
    await simulation.make_topics(world)
    await _wait_until_led(world)
    faults.begin()
    clients = [world.loop.create_task(simulation._client(world, one)) for one in world.plan.clients]
    await asyncio.sleep(world.plan.duration_s)
    world.network.faults = NetworkFaults(delay_s=world.plan.network.delay_s)
    await faults.end()
    world.closing = True
    await faults.wait_until_serving()
    _, late = await asyncio.wait(clients, timeout=simulation.FINISH_S) if clients else (set(), set())
    for task in late:
        world.history.violation(f"a client is stuck: {task.get_name()}")
        task.cancel()
    for task in clients:
        if task not in late and not task.cancelled() and (error := task.exception()) is not None:
            raise error
    world.history.losses.append(world.history.note("at rest"))
    await asyncio.sleep(AT_REST_S)
    brokers, what_ends_them = cast(BrokerProcess, Brokers(nodes)), cast(Faults, faults)
    await silence.keep(world, brokers, what_ends_them)
    await ending.look(world, brokers, what_ends_them)


async def _wait_until_led(world: World) -> None:
    """Until every node knows who leads the topics that are there."""
    topics = [MetadataRequestTopic(name=name) for name in ending.TOPICS]
    for node in world.ports:
        session = Session(world, f"setup-{node}")
        assert session._router is not None
        session._router._any = node
        while True:
            answer = await session.insist(MetadataRequest(topics=topics), 12)
            partitions = [one for topic in answer.topics for one in topic.partitions]
            wanted = len(topics) * world.plan.partitions
            if len(partitions) == wanted and all(one.leader_id in world.ports for one in partitions):
                break
            await asyncio.sleep(0.05)
        session.drop()


def _nodes(count: int, line: Line, world: World, first: BrokerProcess, model: StoreWithStandby) -> list[OneNode]:
    draws = Random(f"store {world.plan.seed}")
    first.settings |= {
        "tallystick.store": "model://",
        "tallystick.store.memory.bytes": str(draws.choice((1, 3_000, 1 << 28))),
        "tallystick.store.read.ahead.bytes": ahead_bytes(world.plan.seed),
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": str(SESSION_MS),
    }
    first.settings.pop("tallystick.durability", None)
    nodes = []
    for number in range(1, count + 1):
        broker = first if number == 1 else _beside(world, first)
        host, port = f"10.0.0.{number}", PORT + number - 1
        broker.name = f"broker{number}"
        broker.listening = listening_at(host, port)
        broker.settings |= {"node.id": str(number), "listeners": f"PLAINTEXT://{host}:{port}"}
        if has_racks(world.plan.seed):
            broker.settings |= {"broker.rack": rack_of(number), "replica.selector.class": RACK_AWARE}
        world.ports[number] = port
        node = OneNode(world, broker)
        broker.make_store = partial(_way_to, model, world, line, draws, node)
        nodes.append(node)
    return nodes


def _beside(world: World, first: BrokerProcess) -> BrokerProcess:
    """Another one like the first."""
    made = BrokerProcess(
        world.scheduler,
        world.network,
        WallClock(world.scheduler),
        first.random,
        first.settings,
        segment_bytes=first.segment_bytes,
        sync_s=first.sync_s,
        any_subset=first.any_subset,
    )
    world.beside.append(made)
    return made


def _way_to(model: StoreWithStandby, world: World, line: Line, draws: Random, node: OneNode) -> WayToStore:
    return WayToStore(
        model,
        world.scheduler,
        line,
        Random(draws.random()),
        hit=world.hit,
        is_cut=node.is_cut,
        is_slow=node.is_slow,
    )
