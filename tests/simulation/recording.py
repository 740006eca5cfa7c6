"""A run over the real disk adapter, call by call, with what clients knew after each call.

`recorded` is a run of a plan, `recorded_start` a broker that is started on what a power cut has left. `violations`
starts one on the disk that forgets, and judges what it holds by what had been acknowledged.
"""

import asyncio
import os
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from tests.harness.disk import SimulatedDisk
from tests.harness.page_cache import Folder
from tests.harness.recording_os import Call, record
from tests.opinion.trace import Exchange, Trace
from tests.simulation import ending
from tests.simulation.adapter import AdapterDisk
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.checkers.stability import deleted_for_good
from tests.simulation.faults import Faults
from tests.simulation.history import History
from tests.simulation.shape import Plan
from tests.simulation.simulation import live, make_topics, run
from tests.simulation.world import World

DOWN_MS = 5_000
"""How long the machine is without power, on the wall clock."""
PATIENCE_S = 600.0
SHARES = "broker.disk.group_commit.SHARES"


@dataclass(slots=True)
class Recording:
    """`known[index]` is what clients knew after `calls[index]`. `boots` counts the power cuts before it, the last of
    which left `before`."""

    plan: Plan
    boots: int = 0
    before: Folder | None = None
    calls: list[Call] = field(default_factory=list)
    known: list[bytes] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    ticks: list[int] = field(default_factory=list)
    """How much of the trace was there after each call: it is kept once."""
    violations: list[str] = field(default_factory=list)

    def ended(self) -> History:
        """All that clients knew in the end."""
        history: History = pickle.loads(self.known[-1])[0]
        return history

    def keep(self, call: Call, world: World) -> None:
        """A call was made."""
        history, self.trace = world.history, world.history.trace
        del history.trace
        known = pickle.dumps((history, world.topic_ids, world.topic_names))
        history.trace = self.trace
        self.calls.append(call)
        self.known.append(self.known[-1] if self.known and self.known[-1] == known else known)
        self.ticks.append(self.trace.ticks)

    def trace_at(self, index: int, now: Callable[[], float]) -> Trace:
        """What had been sent and received by then, to go on with."""
        ticks = self.ticks[index]
        sent = [one for one in self.trace.exchanges if one.sent <= ticks]
        exchanges = [
            one if one.received <= ticks else Exchange(one.connection, one.request, one.version, one.sent, one.sent_s)
            for one in sent
        ]
        apart_s = max((one.sent_s for one in sent), default=0.0) - now() + DOWN_MS / 1000
        return Trace(lambda: now() + apart_s, exchanges, ticks)


def recorded(plan: Plan, root: str) -> Recording:
    """Run the plan over the real adapter in a folder that is not there yet."""
    return _record(Recording(plan), root, live)


def recorded_start(recording: Recording, index: int, disk: SimulatedDisk, root: str) -> Recording:
    """Start a broker on a copy of this disk, which the power left after that call. The folder is not there yet."""
    _lay_out(disk.root, root)
    made = Recording(recording.plan, recording.boots + 1, disk.root)
    return _record(made, root, lambda world, broker: _come_back(world, broker, recording, index))


def _record(made: Recording, root: str, life: Callable[[World, BrokerProcess], Awaitable[None]]) -> Recording:
    async def watched(world: World, broker: BrokerProcess) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SHARES, 2)  # so that one has several flushes to run
            record(patch, root).listener = lambda call: made.keep(call, world)
            broker.disk = cast(SimulatedDisk, AdapterDisk(root))
            await life(world, broker)

    made.violations = run(made.plan, watched).violations
    return made


def _lay_out(folder: Folder, root: str) -> None:
    os.makedirs(root)
    for name, node in folder.entries.items():
        if isinstance(node, Folder):
            _lay_out(node, f"{root}/{name}")
        else:
            with open(f"{root}/{name}", "wb") as file:
                file.write(node.content)


def violations(recording: Recording, index: int, disk: SimulatedDisk) -> list[str]:
    """What is wrong with a broker that is started on this disk, which the power left after that call."""

    async def life(world: World, broker: BrokerProcess) -> None:
        broker.disk = disk
        await asyncio.wait_for(_come_back(world, broker, recording, index), PATIENCE_S)

    result = run(replace(recording.plan, clients=(), faults=(), final=""), life)
    return [*result.violations, *(f"logged: {error}" for error in result.errors)]


async def _come_back(world: World, broker: BrokerProcess, recording: Recording, index: int) -> None:
    """The power is on again; until everything was looked at."""
    known: tuple[History, dict[str, bytes], dict[bytes, str]] = pickle.loads(recording.known[index])
    world.history, topic_ids, world.topic_names = known
    world.history.trace = recording.trace_at(index, lambda: world.scheduler.now)
    world.closing = True
    broker.boots = recording.boots + 1
    broker.clock.step(DOWN_MS * broker.boots)
    faults = Faults(world, broker)
    faults.begin()
    broker.on_end("power")
    await faults.wait_until_serving()
    await make_topics(world)  # early in the recording there may be none yet
    for topic in ending.TOPICS:
        if topic in topic_ids and topic_ids[topic] != world.topic_ids[topic]:
            world.history.violation(f"topic {topic} was there, and is made anew")
    await _look_for_others(world)
    await ending.look(world, broker, faults)
    for text in deleted_for_good(world.history):
        world.history.violation(text)


async def _look_for_others(world: World) -> None:
    """Topics that come and go: one whose deletion was answered stays away, one that was made is there."""
    told: dict[str, bool | None] = {}
    for event in world.history.events:
        if event[0] == "asks for topic":
            told[str(event[1])] = None
        elif event[0] == "topic":
            told[str(event[1])] = bool(event[2])
    for name, is_there in told.items():
        if is_there is not None and is_there != await ending.exists(world, name):
            world.history.violation(f"topic {name} was answered to be {'there' if is_there else 'gone'}, and is not")
