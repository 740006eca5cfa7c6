"""The faults of a plan, as they strike, and what starts the broker again."""

import asyncio
import errno
import os
import traceback
from collections.abc import Iterator
from functools import partial
from typing import Any

from coordinator.runtime import Shard, ShardState
from tests.harness.loop import ProcessDied
from tests.simulation.books import check_books
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.clients import reader
from tests.simulation.plan_faults import LOADING, NO_MORE, THREAD
from tests.simulation.points import Points
from tests.simulation.prefix import Logs, logs_on, no_prefixes
from tests.simulation.rot import rot
from tests.simulation.shape import ClientPlan, FaultPlan
from tests.simulation.sick import KINDS, SPOILT_INDEX, Sick, fall_sick, spoil_index, wrong_patients
from tests.simulation.world import World

GROUPS_CHECKED_EVERY_S = 600
"""`offsets.retention.check.interval.ms`, where a plan does not set it."""

LATER_S = 0.05
"""What finds nothing to damage tries again then."""


MOST_STARTS = 100
"""More than any plan has."""


class Faults:
    """See the head of this file."""

    def __init__(self, world: World, broker: BrokerProcess) -> None:
        self._world = world
        self._broker = broker
        self._armed: list[tuple[FaultPlan, list[int]]] = []
        self._over = self._stopping = False
        self._down_s = 0.1
        self._rot: FaultPlan | None = None
        """Damage that the next start is to find."""
        self._to_spoil: list[FaultPlan] = []
        self._before: Logs | None = None
        """What was on the disk when it was last seen before a crash."""
        self._sick: list[Sick] = []
        self._spoilt: set[str] = set()
        """Folders of logs that were sick once."""
        self._ended = asyncio.Event()
        self._serving = asyncio.Event()
        self._serving.set()
        self._orderly = True
        self.lives: list[tuple[bool, int]] = []
        """Of each time it served again: whether it had ended in order, and the broker's clock."""
        self._points = Points(world, broker, self._die) if world.plan.has_points else None
        if self._points is not None:
            self._points.put_in()

    def begin(self) -> None:
        """Plan everything, and watch over the broker."""
        loop = self._world.loop
        self._broker.on_end = self._has_ended
        self._broker.watch_disk(self._disk, self._look)
        self._broker.fails = self._fails
        for fault in self._world.plan.faults:
            loop.call_later(fault.at_s, partial(self._strike, fault))
        loop.create_task(self._restart_for_ever())

    def end(self) -> None:
        """No fault strikes any more."""
        self._over = True
        self.disarm()
        if self._points is not None:
            self._points.end()
        self._broker.disk.room_bytes = None
        self._broker.slow_disk = 0.0

    async def heal(self) -> None:
        """A log that was spoilt is put right, for which the broker has to be down."""
        if not self._sick:
            return
        node, history = self._broker.node, self._world.history
        if self._broker.alive and node is not None and node.has_started:
            history.violations += [f"spoilt: {sentence}" for sentence in wrong_patients(node, self._sick)]
        await self.finally_end("kill")

    async def end_in_silence(self, fault: FaultPlan) -> None:
        """After `end`: the broker ends at once and comes back, or it will at a later operation of the disk."""
        await self.wait_until_serving()
        if fault.operation:
            self._armed.append((fault, [max(1, fault.count)]))
            self._broker.watch_disk(self._disk, self._look)
        else:
            await self.finally_end(fault.kind)

    def disarm(self) -> None:
        """What has not struck does not."""
        self._armed.clear()
        self._broker.watch_disk(None, None)

    async def wait_until_serving(self) -> None:
        await self._serving.wait()

    async def finally_end(self, how: str) -> None:
        """End the broker once more, as the plan wants it, and let it come back."""
        if how == "stop":
            await self._stop()
        elif how == "kill":
            self._broker.kill()
        elif how == "power":
            self._broker.cut_power()
        await asyncio.sleep(0)
        await self.wait_until_serving()

    # -- striking --------------------------------------------------------------------------------------------

    def _strike(self, fault: FaultPlan) -> None:
        if self._over:
            return
        broker, world = self._broker, self._world
        check_books(world, broker)
        if fault.kind in ("kill", "power", "stop", "failed sync"):
            self._end(fault)
        elif fault.kind == THREAD:
            self._armed.append((fault, [max(1, fault.count)]))
        elif fault.kind == NO_MORE:
            self._make_no_more_threads(int(fault.amount))
        elif fault.kind == "full" and broker.alive:
            world.hit("fault.full")
            broker.disk.room_bytes = int(fault.amount)
        elif fault.kind == "cut":
            for _ in range(fault.count):
                world.network.cut_one()
        elif fault.kind in ("clock", "drift"):
            self._set_clock(fault)
        elif fault.kind in ("rot", SPOILT_INDEX, *KINDS):
            self._damage(fault)
        elif fault.kind == "point" and self._points is not None:
            self._points.arm(fault)

    def _damage(self, fault: FaultPlan) -> None:
        """What the next start is to find; or readers, from now on."""
        if fault.kind == "rot":
            self._rot = fault
        elif fault.kind != SPOILT_INDEX:
            self._to_spoil.append(fault)
        elif self._broker.alive and (sick := spoil_index(self._broker.disk, fault)) is not None:
            self._fell_sick(fault, sick)
            options = (("topic", sick.place[0]), ("committed", True))
            plan = ClientPlan("reader", f"again-{fault.count % 10}", fault.count, options=options)
            self._world.loop.create_task(reader.run(self._world, plan))
        else:
            self._world.loop.call_later(LATER_S, self._strike, fault)

    def _end(self, fault: FaultPlan) -> None:
        """An end of the broker, or something that leads to one, now or at a later operation of the disk."""
        if fault.operation or fault.kind == "failed sync":
            self._armed.append((fault, [max(1, fault.count)]))
        elif fault.kind != "stop":
            self._die(fault)
        elif self._broker.alive and self._serving.is_set() and not self._stopping:
            self._world.hit("fault.stop")
            self._world.loop.create_task(self._stop())

    def _set_clock(self, fault: FaultPlan) -> None:
        world, clock = self._world, self._broker.clock
        world.hit(f"fault.{fault.kind}")
        if fault.kind == "drift":
            clock.drift(fault.amount)
            return
        clock.step(int(fault.amount * 1000))
        if self._broker.alive and fault.amount >= GROUPS_CHECKED_EVERY_S:
            world.history.steps_ahead.append(world.history.note("clock set forward", fault.amount))

    def _disk(self, operation: str, path: str) -> None:
        """Called before and after every change of the disk, by the broker."""
        if path.endswith(".log"):
            self._note_log(operation, path)
        elif path.endswith(".log.swap") and operation == "rename":
            self._world.hit("log.compacted")
        if self._armed:
            self._strike_armed(operation, path)

    def _look(self, operation: str, path: str) -> None:
        """Called before something is read from the disk, by the broker."""
        for sick in self._sick:
            if self._may_fail(sick, operation, path) and sick.fails(operation, path):
                self._world.hit(f"fault.{operation}-failed")
                code = errno.EIO if operation == "read" else errno.EMFILE
                raise OSError(code, os.strerror(code), path)
        if self._armed and operation == "read":
            folder = path.partition("/")[0]
            if any(shard.name == folder and shard.state is ShardState.LOADING for shard in self._shards()):
                self._strike_armed(LOADING, path)

    def _may_fail(self, sick: Sick, operation: str, path: str) -> bool:
        """What fails now and then does so once all logs are open: one that is not opened stays closed until the end."""
        node = self._broker.node
        if not sick.every:
            return operation == "read"
        if node is None or not node.has_started or node.services.topics.to_open.any_left:
            return False
        return operation == "read" or (operation == "open" and self._broker.disk.exists(path))

    def _shards(self) -> Iterator[Shard[Any]]:
        node = self._broker.node
        if node is not None and node.has_started:
            yield from node.services.transactions.all()
            yield from node.services.groups.all()

    def _strike_armed(self, operation: str, path: str) -> None:
        for entry in self._armed:
            fault, left = entry
            wanted = "sync" if fault.kind == "failed sync" else fault.operation
            if wanted != operation or fault.kind == THREAD:
                continue
            left[0] -= 1
            if left[0] > 0:
                continue
            self._armed.remove(entry)
            if fault.kind == "failed sync":
                self._world.hit("fault.failed-sync")
                raise OSError(errno.EIO, "Input/output error", path)
            self._world.hit(f"fault.{operation}")
            self._die(fault)
            raise ProcessDied

    def _fails(self, kind: str) -> str:
        """Asked of each piece of work that a thread is to do; `_armed` says which of them it does not survive."""
        for entry in self._armed:
            fault, left = entry
            if fault.kind == THREAD and fault.operation == kind:
                left[0] -= 1
                if left[0] <= 0:
                    self._armed.remove(entry)
                    self._world.hit(f"fault.thread-{kind}")
                    return "after" if fault.amount else "before"
        return ""

    def _make_no_more_threads(self, threads: int) -> None:
        """Those there are do all the work, also in the processes to come."""
        self._world.hit("fault.no-more-threads")
        self._broker.threads = threads
        if self._broker.environment is not None:
            self._broker.environment.threads = threads

    def _note_log(self, operation: str, path: str) -> None:
        if operation == "create" and not path.endswith("/00000000000000000000.log"):
            self._world.hit("log.rolled")
        elif operation == "truncate" and not self._serving.is_set():
            self._world.hit("log.cut-at-recovery")

    def _die(self, fault: FaultPlan) -> None:
        if not self._broker.alive:
            return
        self._world.hit(f"fault.{fault.kind}")
        self._down_s = fault.down_s
        if self._world.plan.loses:
            self._before = self._before or logs_on(self._broker.disk)
            self._world.hit(f"fault.{fault.kind}-on-page-cache")
        if fault.kind == "kill" or (fault.kind == "point" and not fault.count):
            self._broker.kill()
        else:
            self._broker.cut_power()

    async def _stop(self) -> None:
        """An orderly end; a fault may still strike in the middle of it."""
        loop = self._broker.loop
        assert loop is not None
        self._stopping = True
        done = asyncio.Event()
        self._world.history.ended_at = self._world.history.note("stopping")

        async def stop() -> None:
            try:
                await self._broker.stop()
            except Exception as error:  # the process ends of it; lived it on, deaf, clients would retry for ever
                text = "".join(traceback.format_exception(error))
                self._world.history.violation(f"an orderly stop failed: {text}")
                self._broker.kill()
            else:
                self._broker.stopped()
            done.set()

        loop.call_soon(lambda: loop.create_task(stop()))
        while loop.alive and not done.is_set():
            await asyncio.sleep(0.01)

    # -- coming back -----------------------------------------------------------------------------------------

    def _has_ended(self, how: str) -> None:
        time = self._world.history.note("broker ended", how)
        node, environment = self._broker.node, self._broker.environment
        if how != "stop":
            if environment is not None and environment.is_opening:
                self._world.hit("crash.opening")
            if any(shard.state is ShardState.LOADING for shard in self._shards()):
                self._world.hit("crash.loading")
        if how != "stop" and node is not None and node.has_started:
            for shard in node.services.transactions.all():
                for transaction in shard.machine.transactions.values():
                    self._world.hit(f"crash.{transaction.state.wire_name}")
        self._orderly = how == "stop"
        self._world.history.ends.append(time)
        self._world.history.ended_at = time
        if how != "stop":
            self._world.history.crashes.append(time)
        if node is not None and node.failure is not None and not self._world.plan.disk_fails:
            self._world.history.violation(f"the broker ended by itself: {node.failure!r}")
        if how == "power" or (node is not None and node.failure is not None):
            self._world.history.losses.append(time)
        self._serving.clear()
        self._stopping = False
        self._ended.set()

    async def _check_prefixes(self) -> None:
        """When every log is open; until then it may be longer than what is right of it."""
        broker = self._broker
        process, node = broker.loop, broker.node
        if self._before is None or process is None or node is None:
            return
        while process.alive and node.services.topics.to_open.any_left:
            await asyncio.sleep(0.01)
        if process.alive and self._before is not None:
            before = {log: batches for log, batches in self._before.items() if log not in self._spoilt}
            found = no_prefixes(before, logs_on(self._broker.disk))
            self._world.history.violations += [f"no prefix: {sentence}" for sentence in found]
            self._before = None

    def _spoil_or_heal(self) -> None:
        disk = self._broker.disk
        if self._over:
            for sick in self._sick:
                sick.heal(disk, self._world.history)
            self._sick.clear()
            return
        for fault in list(self._to_spoil):
            if (found := fall_sick(disk, fault, [sick.place for sick in self._sick])) is not None:
                self._to_spoil.remove(fault)
                self._fell_sick(fault, found)

    def _fell_sick(self, fault: FaultPlan, sick: Sick) -> None:
        self._world.hit(f"sick.{fault.kind}")
        self._world.history.note("spoilt", sick.place, sick.path, sick.position)
        self._sick.append(sick)
        if len(self._sick) > 1:
            self._world.hit("sick.two")
        self._spoilt.add("{}-{}".format(*sick.place))

    async def _restart_for_ever(self) -> None:
        while True:
            await self._ended.wait()
            self._ended.clear()
            await asyncio.sleep(self._down_s)
            self._broker.disk.room_bytes = None
            if self._rot is not None and not self._over and rot(self._broker.disk, self._rot) is not None:
                self._world.hit(f"rot.{self._rot.operation}")
                self._rot = None
            self._spoil_or_heal()
            assert self._broker.starts < MOST_STARTS, "the broker does not come up any more"
            serving = self._broker.start()
            ended = self._world.loop.create_task(self._ended.wait())
            await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
            if serving.done() and not self._ended.is_set():  # it may have died in the very moment
                self._world.loop.create_task(self._check_prefixes())
                self._world.history.serves.append(self._world.history.note("broker serves"))
                self.lives.append((self._orderly, self._broker.clock.now_ms()))
                self._world.hit("broker.restarted")
                self._serving.set()
            ended.cancel()
