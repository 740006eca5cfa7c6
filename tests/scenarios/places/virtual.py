"""In process: the real node behind the real server, on virtual time, a disk in memory and a network that is only quick.

Each story has a broker of its own, which may crash, lose its power and see days go by in no time.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random
from unittest import mock

from broker.faults.control import Faults
from coordinator.cluster.features import FINALIZED_FEATURES
from tallystick.client.connection import Connection
from tests.harness.environment import WALL_START_MS, WallClock
from tests.harness.heard import HeardConnection
from tests.harness.loop import ProcessDied, ProcessLoop, Scheduler, run_on
from tests.harness.network import Network, NetworkFaults
from tests.opinion.trace import Aged, Trace
from tests.scenarios.engine import Engine
from tests.scenarios.language import Scenario
from tests.scenarios.places import meddling
from tests.scenarios.places.ageing import age_in_the_log
from tests.scenarios.record import FAULTS
from tests.simulation.broker_process import PORT, BrokerProcess, BugLog
from tests.simulation.simulation import over_a_store, quiet_about_the_dead
from tests.simulation.stored import Line

LONG_S = 120.0
LONGEST_STOP_S = 10.0
SETTINGS = {
    "listeners": "PLAINTEXT://10.0.0.1:9092",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "tallystick.write.ahead.bytes": "0",  # what waits is named file by file in stories; some have one
}


class Virtual:
    """See the head of this file."""

    name = "in process"
    powers = frozenset({"time", "crash", "power", "settings"})

    def __init__(self, settings: dict[str, str], segment_bytes: int) -> None:
        self.scheduler = Scheduler()
        random = Random(1)
        self.network = Network(self.scheduler, random, NetworkFaults(delay_s=0.0001))
        self.loop = ProcessLoop(self.scheduler, "clients")
        self.loop.network = self.network
        clock = self.clock = WallClock(self.scheduler)
        self.broker = BrokerProcess(
            self.scheduler,
            self.network,
            clock,
            random,
            SETTINGS | settings,
            segment_bytes=segment_bytes,
            sync_s=0.0001,
            any_subset=False,
        )
        self.strike: Callable[[], None] = self.broker.kill
        self.trace = Trace(now=lambda: self.scheduler.now)
        self.for_the_next = ""
        """Faults that were armed while no process was there."""

    async def connect(self, client_id: str) -> Connection:
        return await HeardConnection.hear(self.trace, "10.0.0.1", PORT, client_id=client_id)

    async def pass_time(self, seconds: float) -> None:
        if seconds > LONG_S:
            # As on a machine that was suspended: what is overdue is done once, not once for each time it was due.
            self.scheduler.now += seconds - LONG_S
            seconds = LONG_S
        await asyncio.sleep(seconds)

    async def set_clock_back(self, seconds: float) -> None:
        self.clock.step(-int(seconds * 1000))

    async def end(self, how: str) -> None:
        if how == "power cut":
            self.broker.cut_power()
        elif how == "power cut, nothing unsynced is left":
            random, self.broker.random = self.broker.random, meddling.Merciless(1)
            self.broker.cut_power()
            self.broker.random = random
        elif how == "crash":
            self.broker.kill()
        elif how in ("stop", "stop at once"):
            self._stop()
            while self.broker.alive and how == "stop":
                await asyncio.sleep(0.001)
        else:
            raise AssertionError(f"a broker in process does not know how to {how}")

    def arm(self, how: str, point: str) -> None:
        self.strike = self.broker.kill if how == "crash" else self.broker.cut_power
        assert self.broker.node is not None and self.broker.node.faults is not None
        self.broker.node.faults.arm(f"{point}=crash")

    async def meddle(self, engine: Engine, words: list[str]) -> None:
        await meddling.meddle(self, engine, words)

    def _stop(self) -> None:
        loop = self.broker.loop
        assert loop is not None
        loop.call_soon(lambda: loop.create_task(self.broker.stop()).add_done_callback(lambda _: self.broker.stopped()))

    def faults(self) -> Faults:
        """The fault points of a new process."""
        faults, self.for_the_next = Faults(self, self.for_the_next), ""
        return faults

    def crash(self) -> None:
        """A fault strikes: the process dies where it is."""
        self.strike()
        raise ProcessDied

    def freeze(self) -> None:
        raise AssertionError("time does not stand still in a story")

    def stand_still(self, milliseconds: int) -> None:
        assert self.broker.loop is not None
        self.broker.loop.stand_still(milliseconds / 1000)

    async def age(self, engine: Engine, transactional_id: str, epoch: int) -> None:
        node, loop = self.broker.node, self.broker.loop
        assert node is not None and loop is not None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            task = loop.create_task(age_in_the_log(node, transactional_id, epoch))
            task.add_done_callback(lambda _: done.set_result(None))

        loop.call_soon(begin)
        await done
        self.trace.receive(self.trace.send("nobody", Aged(transactional_id, epoch), 0), epoch)

    async def restart(self) -> None:
        ended_by = self.scheduler.now + LONGEST_STOP_S
        while self.broker.alive:  # it is stopping, and takes its time
            assert self.scheduler.now < ended_by, "the broker has not ended"
            await asyncio.sleep(0.01)
        await self.broker.start()
        node = self.broker.node
        while self.broker.alive and node is not None and node.services.topics.to_open.any_left:
            await asyncio.sleep(0.001)


def play(
    scenario: Scenario, transaction_version: int, trace: Trace | None = None, *, line: Line | None = None
) -> list[list[str]]:
    """Run the story once, in a cluster of this transaction.version; `trace` gets every request and response. With a
    `line`, logs are in a shared store at its end."""
    place = Virtual(scenario.settings, scenario.segment_bytes or 1 << 20)
    if line is not None:
        over_a_store(place.broker, line, Random(1), lambda _: None, memory_bytes=1 << 28)
    if trace is not None:
        trace.now, place.trace = place.trace.now, trace
    if scenario.uses(*FAULTS):
        place.broker.make_faults = place.faults
    bugs = BugLog()
    log = logging.getLogger("tallystick")
    level, handlers, propagate = log.level, log.handlers, log.propagate
    log.handlers, log.propagate = [bugs], False
    log.setLevel(logging.ERROR)
    features = mock.patch.dict(FINALIZED_FEATURES, {"transaction.version": transaction_version})
    try:
        with quiet_about_the_dead(), features:
            answers: list[list[str]] = run_on(place.loop, _play(place, scenario))
    finally:
        if place.broker.loop is not None:
            place.broker.loop.die()
        place.loop.die()
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)
    assert not bugs.bugs, bugs.bugs
    assert not place.scheduler.failures, place.scheduler.failures
    return answers


async def _play(place: Virtual, scenario: Scenario) -> list[list[str]]:
    await place.broker.start()
    engine = Engine(place, scenario, suffix=".r1x1", zero_ms=WALL_START_MS - 3_600_000)
    return await engine.play()
