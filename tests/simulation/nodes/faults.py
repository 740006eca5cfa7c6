"""The faults of several nodes, as they strike, and what starts each node again."""

import asyncio
import traceback
from functools import partial
from random import Random

from storage.log import StorageFailed
from storage.shared.store import Incarnation
from tests.simulation.books import check_books
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.nodes.plan import FAILOVER, FREEZE, KILL, NO_NODES, NO_STORE, SLOW_STORE, STOP
from tests.simulation.nodes.standby import StoreWithStandby
from tests.simulation.shape import FaultPlan
from tests.simulation.world import World

LOOK_S = 0.02
ALL_END = 0.3
"""How often all nodes end in a silence, and not one of them."""
TAKEN_OVER_MS = 5_000
"""So long after the end of a node somebody has taken over what it led, or given it back."""
OUSTED = ("is over", "is another node's", "begins at")
"""What a node ends with whose place another has, or that was away for so long that it cannot follow any more."""


class OneNode:
    """A node, as it ends and comes back."""

    def __init__(self, world: World, broker: BrokerProcess) -> None:
        self.broker = broker
        self.serves = True
        self.stopping = False
        self.down_s = 0.1
        self.no_store_until_s = 0.0
        self.slow_store_until_s = 0.0
        self.lives: list[tuple[bool, int]] = []
        """Up to when what it led may have been opened anew; see `Faults`."""
        self._world = world
        self._ended = asyncio.Event()
        broker.on_end = self._has_ended

    def is_cut(self) -> bool:
        """Whether the store cannot be reached."""
        return self._world.scheduler.now < self.no_store_until_s

    def is_slow(self) -> bool:
        """Whether the store takes long to answer it."""
        return self._world.scheduler.now < self.slow_store_until_s

    def die(self, down_s: float) -> None:
        if self.broker.alive:
            self.down_s = down_s
            self.broker.cut_power()

    def freeze(self, seconds: float) -> bool:
        """Whether it stands still from now on."""
        loop = self.broker.loop
        if loop is None or not loop.awake:
            return False
        loop.stand_still(seconds)
        return True

    async def stop(self) -> None:
        """An orderly end; a fault may still strike in the middle of it."""
        loop = self.broker.loop
        assert loop is not None
        self.stopping = True
        done = asyncio.Event()
        self._world.history.ended_at = self._world.history.note("stopping", self.broker.name)

        async def stop() -> None:
            try:
                await self.broker.stop()
            except Exception as error:
                text = "".join(traceback.format_exception(error))
                self._world.history.violation(f"an orderly stop failed: {text}")
                self.broker.kill()
            else:
                self.broker.stopped()
            done.set()

        loop.call_soon(lambda: loop.create_task(stop()))
        while loop.alive and not done.is_set():
            await asyncio.sleep(0.01)

    def _has_ended(self, how: str) -> None:
        history, failure = self._world.history, self.broker.node.failure if self.broker.node else None
        time = history.note("broker ended", self.broker.name, how, str(failure))
        history.ends.append(time)
        history.ended_at = time
        if how != "stop":
            history.crashes.append(time)
            history.losses.append(time)
        if failure is not None:
            is_ousted = isinstance(failure, StorageFailed) and any(text in str(failure) for text in OUSTED)
            self._world.hit("nodes.ousted")
            if not is_ousted:
                history.violation(f"{self.broker.name} ended by itself: {failure!r}")
        self.serves = self.stopping = False
        self._moves()
        self._ended.set()

    def _moves(self) -> None:
        self.lives.append((False, self.broker.clock.now_ms() + TAKEN_OVER_MS))

    async def start_for_ever(self) -> None:
        while True:
            await self._ended.wait()
            self._ended.clear()
            await asyncio.sleep(self.down_s)
            serving = self.broker.start()
            ended = self._world.loop.create_task(self._ended.wait())
            await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
            if serving.done() and not self._ended.is_set():
                self._world.history.serves.append(self._world.history.note("broker serves", self.broker.name))
                self._world.hit("broker.restarted")
                self.serves = True
                self._moves()
            ended.cancel()


class NodeFaults:
    """See the head of this file."""

    def __init__(self, world: World, nodes: list[OneNode], store: StoreWithStandby) -> None:
        self._world = world
        self._nodes = nodes
        self._store = store
        self._random = Random(f"standby {world.plan.seed}")
        self._who_ends = Random(f"ends in silence {world.plan.seed}")
        self.lives: list[tuple[bool, int]] = []
        for node in nodes:
            node.lives = self.lives
        store.on_silence = self._check_silence
        self._over = False

    def begin(self) -> None:
        """Plan everything, and watch over the nodes."""
        loop = self._world.loop
        for fault in self._world.plan.faults:
            loop.call_later(fault.at_s, partial(self._strike, fault))
        for node in self._nodes:
            loop.create_task(node.start_for_ever())

    async def end(self) -> None:
        """No fault strikes any more, and what stood still goes on."""
        self._over = True
        self._world.network.severed.clear()
        for node in self._nodes:
            node.no_store_until_s = node.slow_store_until_s = 0.0
        self._store.go_on()
        while any(node.broker.alive and not node.broker.loop.awake for node in self._nodes if node.broker.loop):
            await asyncio.sleep(LOOK_S)

    async def wait_until_serving(self) -> None:
        while not all(node.serves for node in self._nodes):
            await asyncio.sleep(LOOK_S)

    async def finally_end(self, how: str) -> None:
        """End all nodes once more, together or one after the other, and let them come back."""
        for node in self._nodes:
            if how == "stop":
                await node.stop()
                await self.wait_until_serving()
            else:
                node.die(0.1)
        await asyncio.sleep(0)
        await self.wait_until_serving()

    async def end_in_silence(self, fault: FaultPlan) -> None:
        """One node ends, or all do at once, and comes back; nobody waits for that."""
        node = self._who_ends.choice(self._nodes)
        if fault.kind == KILL and self._who_ends.random() < ALL_END:
            for one in self._nodes:
                one.die(fault.down_s)
        elif fault.kind == KILL:
            node.die(fault.down_s)
        elif node.broker.alive and node.serves and not node.stopping:
            node.down_s = fault.down_s
            self._world.loop.create_task(node.stop())

    def disarm(self) -> None:
        """Nothing is about to strike."""

    def _check_silence(self, who: Incarnation) -> None:
        """Who was ended because nobody heard it knows that this may be, and answers nothing out of memory. That a
        failover has lost its last words it cannot know."""
        node = next(one.broker for one in self._nodes if one.broker.name == f"broker{who.node_id}")
        others = None if node.node is None or not node.alive else node.node._others
        if others is None or self._store.failovers:
            return
        self._world.hit("nodes.ended-in-silence")
        if others.life._who == who and not others.life._may_be_behind():
            self._world.history.violation(f"{node.name} was ended for its silence, and goes on answering")

    # -- striking --------------------------------------------------------------------------------------------

    def _strike(self, fault: FaultPlan) -> None:
        if self._over:
            return
        world = self._world
        for one in self._nodes:
            check_books(world, one.broker)
        if fault.kind == "cut":
            for _ in range(fault.count):
                world.network.cut_one()
        elif fault.kind in (FAILOVER, SLOW_STORE):
            self._strike_the_store(fault)
        else:
            self._strike_one(fault, self._nodes[fault.count])

    def _strike_one(self, fault: FaultPlan, node: OneNode) -> None:
        world = self._world
        until_s = world.scheduler.now + fault.amount
        world.hit(f"fault.{fault.kind}")
        world.history.note("fault", fault.kind, node.broker.name, fault.amount, fault.operation)
        if fault.kind == KILL:
            node.die(fault.down_s)
        elif fault.kind == STOP and node.broker.alive and node.serves and not node.stopping:
            node.down_s = fault.down_s
            world.loop.create_task(node.stop())
        elif fault.kind == FREEZE and node.freeze(fault.amount):
            world.hit("nodes.stood-still")
        elif fault.kind == NO_STORE:
            node.no_store_until_s = until_s
        elif fault.kind == NO_NODES:
            self._sever(node, fault.operation, until_s)
        elif fault.kind == "drift":
            node.broker.clock.drift(fault.amount)
        elif fault.kind == "clock":
            node.broker.clock.step(int(fault.amount * 1000))

    def _strike_the_store(self, fault: FaultPlan) -> None:
        world = self._world
        world.history.note("fault", fault.kind, fault.amount, fault.down_s, fault.operation)
        if fault.kind == FAILOVER:
            self._store.stand_still()
            world.loop.call_later(fault.down_s, self._fail_over, fault)
            return
        world.hit(f"fault.{SLOW_STORE}")
        until_s = world.scheduler.now + fault.amount
        for node in self._nodes if fault.operation == "all" else (self._nodes[fault.count],):
            node.slow_store_until_s = max(node.slow_store_until_s, until_s)

    def _fail_over(self, fault: FaultPlan) -> None:
        if not self._over and self._store.standby_stands_still:
            self._world.hit(f"fault.{FAILOVER}")
            self._store.fail_over(self._random, int(fault.amount * 1000))
            self._world.history.note("failover", self._store.failovers)

    def _sever(self, node: OneNode, way: str, until_s: float) -> None:
        severed, name = self._world.network.severed, node.broker.name
        for other in self._nodes:
            if other is not node:
                if way in ("both", "out"):
                    severed[name, other.broker.name] = until_s
                if way in ("both", "in"):
                    severed[other.broker.name, name] = until_s
