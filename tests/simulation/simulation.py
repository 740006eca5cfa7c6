"""One run: a plan in, what was wrong out.

A broker and its clients live through the faults of the plan. Then everything heals: clients finish what they began,
transactions that nobody ends time out, the broker is stopped or killed once more, and the log is read to its end.
"""

import asyncio
import contextlib
import gc
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from storage.shared.memory_store import StoreInMemory
from tests.harness.environment import WallClock
from tests.harness.loop import ProcessDied, Scheduler, Stuck, new_process, run_on
from tests.harness.network import Network, NetworkFaults
from tests.harness.turn_work import CountingScheduler
from tests.simulation import ending, sharing, silence
from tests.simulation.broker_process import BrokerProcess, BugLog
from tests.simulation.checkers import CHECKERS
from tests.simulation.clients import (
    admin,
    committer,
    consumer,
    idempotent,
    plain,
    reader,
    sharer,
    streams,
    transactional,
    worker,
)
from tests.simulation.clients.session import Session
from tests.simulation.faults import Faults
from tests.simulation.history import History
from tests.simulation.plan_clients import COMPACTED
from tests.simulation.shape import ClientPlan, Plan
from tests.simulation.stored import DistantStore, Line, ahead_bytes, in_stretches
from tests.simulation.world import World

CLIENTS: dict[str, Callable[[World, ClientPlan], Awaitable[None]]] = {
    "idempotent": idempotent.run,
    "plain": plain.run,
    "transactional": transactional.run,
    "reader": reader.run,
    "worker": worker.run,
    "committer": committer.run,
    "consumer": consumer.run,
    "streams": streams.run,
    "sharer": sharer.run,
    "admin": admin.run,
}
HEARTBEAT_MS = 100
"""What members are told; settings of a group are refused where it is longer than their sessions."""
COUNTED_EVERY = 25
AT_ONCE = 5_000
"""Partitions made by one request; with ten thousand records it is refused."""
FINISH_S = 60.0
"""How long clients may take to finish once all is well."""


@dataclass(slots=True)
class Result:
    """What became of a run."""

    seed: int
    violations: list[str]
    operations: int
    records: int
    hits: dict[str, int] = field(default_factory=dict)
    history: History | None = None
    errors: list[str] = field(default_factory=list)
    """What the broker logged as an error of the world, not its own."""

    @property
    def digest(self) -> str:
        """The same for the same run, and for no other."""
        assert self.history is not None
        return self.history.digest()


async def live(world: World, broker: BrokerProcess) -> None:
    """All of a plan, from the first start to the last look."""
    plan, loop = world.plan, world.loop
    faults = Faults(world, broker)
    await broker.start()
    await make_topics(world)
    faults.begin()
    clients = [loop.create_task(_client(world, one)) for one in plan.clients]
    await asyncio.sleep(plan.duration_s)
    world.network.faults = NetworkFaults(delay_s=plan.network.delay_s)
    faults.end()
    world.closing = True
    await faults.heal()
    await faults.wait_until_serving()
    _, late = await asyncio.wait(clients, timeout=FINISH_S) if clients else (set(), set())
    for task in late:
        world.history.violation(f"a client is stuck: {task.get_name()}")
        task.cancel()
    for task in clients:
        if task not in late and not task.cancelled() and (error := task.exception()) is not None:
            raise error
    await silence.keep(world, broker, faults)
    await ending.look(world, broker, faults)


def run(
    plan: Plan,
    life: Callable[[World, BrokerProcess], Coroutine[Any, Any, None]] = live,
    scheduler: Scheduler | None = None,
    *,
    line: Line | None = None,
) -> Result:
    """Run a plan to its end and check what happened. `life` is what is done with the broker; in a run of one seed in
    `COUNTED_EVERY` its work is counted. With a `line`, logs are in a shared store at its end."""
    if scheduler is None:
        is_counted = plan.seed % COUNTED_EVERY == 0 and plan.wide is None  # many logs make a start one long turn
        scheduler = CountingScheduler() if is_counted else Scheduler()
    random = Random(plan.seed)
    network = Network(scheduler, random, plan.network)
    loop = new_process(scheduler, "clients")
    loop.network = network
    world = World(plan, scheduler, loop, network)
    broker = _broker(plan, scheduler, network, random)
    if line is not None:
        draws = Random(f"store {plan.seed}")
        memory_bytes = draws.choice((1, 3_000, 1 << 28))
        over_a_store(broker, line, draws, world.hit, memory_bytes=memory_bytes, seed=plan.seed)
    bugs = BugLog()
    gc_was = gc.isenabled()
    gc.disable()
    violations: list[str] = []
    try:
        with in_stretches(plan.seed), quiet_about_the_dead(), _heard_by(bugs):
            run_on(loop, life(world, broker))
    except Stuck as stuck:
        violations.append(f"stuck: {stuck}")
    except Exception as error:  # whatever it is, it is what this seed found
        violations.append(f"stuck: a client failed: {''.join(traceback.format_exception(error))}")
    finally:
        for one in (broker, *world.beside):
            if one.loop is not None:
                one.loop.die()
        loop.die()
        if gc_was:
            gc.enable()
    history = world.history
    violations += [*history.violations, *scheduler.failures, *(f"logged as a bug: {bug}" for bug in bugs.bugs)]
    telling = ("unhandled",) if plan.loses else ("unhandled", "belongs to nobody")
    violations += [f"logged: {error}" for error in bugs.errors if any(words in error for words in telling)]
    if not plan.loses and not any(text.startswith("stuck") for text in violations):
        for name, check in CHECKERS.items():
            violations += [f"{name}: {text}" for text in check(history)]
    world.count_points()
    hits = world.hits | network.hits
    return Result(plan.seed, violations, world.operations, len(history.writes), hits, history, bugs.errors)


@contextlib.contextmanager
def quiet_about_the_dead() -> Iterator[None]:
    """What is left of a process that died is thrown away; Python would report what it meets there."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda found: None if isinstance(found.exc_value, ProcessDied) else hook(found)
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextlib.contextmanager
def _heard_by(handler: logging.Handler) -> Iterator[None]:
    """What the broker logs goes there, and nowhere else."""
    logs = [logging.getLogger(name) for name in ("tallystick", "broker", "coordinator", "storage")]
    before = [(log.level, log.handlers, log.propagate) for log in logs]
    for log in logs:
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for log, (level, log.handlers, log.propagate) in zip(logs, before, strict=True):
            log.setLevel(level)


def _broker(plan: Plan, scheduler: Scheduler, network: Network, random: Random) -> BrokerProcess:
    settings = {
        "listeners": "PLAINTEXT://10.0.0.1:9092",
        "tallystick.durability": "page-cache" if plan.page_cache else "fsync",
        "offsets.topic.num.partitions": str(plan.internal_partitions),
        "transaction.state.log.num.partitions": str(plan.internal_partitions),
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": str(consumer.SESSION_MS),
        "group.consumer.assignment.interval.ms": "0",
        "group.streams.min.session.timeout.ms": "100",
        "group.streams.session.timeout.ms": str(streams.SESSION_MS),
        "group.streams.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "100",
        "group.streams.num.standby.replicas": "1",
        **sharing.settings(plan),
        **{
            f"group.{kind}.{bound}heartbeat.interval.ms": str(HEARTBEAT_MS)
            for kind in ("consumer", "streams", "share")
            for bound in ("", "min.")
        },
        "auto.create.topics.enable": "false",
        **dict(plan.settings),
    }
    broker = BrokerProcess(
        scheduler,
        network,
        WallClock(scheduler),
        random,
        settings,
        segment_bytes=plan.segment_bytes,
        sync_s=plan.sync_s,
        any_subset=plan.any_subset,
    )
    broker.slow_disk, broker.threads = plan.slow_disk, plan.threads
    broker.clock.drift(plan.clock_rate)
    return broker


def over_a_store(
    broker: BrokerProcess,
    line: Line,
    random: Random,
    hit: Callable[[str], None],
    *,
    memory_bytes: int,
    seed: int = 0,
) -> None:
    """What the broker writes goes to a store from now on, which outlives it."""
    model = StoreInMemory(lambda: int(broker.scheduler.now * 1000), keeps_apart=line.bucket is not None)
    broker.settings |= {"tallystick.store": "model://", "tallystick.store.memory.bytes": str(memory_bytes)}
    broker.settings["tallystick.store.read.ahead.bytes"] = ahead_bytes(seed)
    broker.settings["broker.heartbeat.interval.ms"] = "200"
    broker.settings.pop("tallystick.durability", None)
    broker.make_store = lambda: DistantStore(model, broker.scheduler, line, Random(random.random()), hit=hit)


async def _client(world: World, plan: ClientPlan) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.set_name(plan.name)
    await asyncio.sleep(plan.start_s)
    if not world.closing:
        await CLIENTS[plan.kind](world, plan)


async def make_topics(world: World) -> None:
    """Those that are there from the beginning to the end, and the coordinators."""
    session = Session(world, "setup")
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=world.plan.partitions,
            replication_factor=1,
            assignments=[],
            configs=compacted if name == COMPACTED else [],
        )
        for name in ending.TOPICS
    ]
    world.history.compacted.add(COMPACTED)
    await session.insist(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
    if (wide := world.plan.wide) is not None:
        many = [
            CreatableTopic(name=name, num_partitions=wide.partitions, replication_factor=1, assignments=[], configs=[])
            for name in wide.names
        ]
        portion = max(1, AT_ONCE // wide.partitions)
        for first in range(0, len(many), portion):
            await session.insist(CreateTopicsRequest(topics=many[first : first + portion], timeout_ms=30_000), 7)
        topics += many
        world.hit("wide.made")
    answer = await session.insist(
        MetadataRequest(topics=[MetadataRequestTopic(name=topic.name) for topic in topics]), 12
    )
    while world.ports and any(topic.error_code for topic in answer.topics):  # another node was asked
        await asyncio.sleep(0.05)
        answer = await session.insist(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic.name) for topic in topics]), 12
        )
    for topic in answer.topics:
        assert not topic.error_code
        world.topic_ids[topic.name] = topic.topic_id
        world.topic_names[topic.topic_id] = topic.name
    for kind in (0, 1):
        await ending.find_coordinator(session, kind)
    if world.history.shares:
        await sharing.set_up(world, session)
    session.drop()
