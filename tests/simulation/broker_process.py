"""The broker of a run: the real node behind the real server, on the simulated world; it dies and comes back."""

import asyncio
import dataclasses
import logging
import socket
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

from broker.api.catalogue import CloseConnection
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.config.topic_config import TopicConfig
from broker.coordination.coordinators import CoordinatorError
from broker.faults.control import Faults
from broker.network.listeners import Bound
from broker.network.server import Server
from broker.node import Node
from broker.partitions.errors import AppendError
from storage.checkpoints import UnreadableDataFolder
from storage.log import StorageFailed
from tests.harness.disk import SimulatedDisk, Watcher
from tests.harness.environment import SimulatedEnvironment, SyncGate, ThreadFailed, WallClock
from tests.harness.loop import ProcessDied, ProcessLoop, Scheduler, new_process
from tests.harness.network import Network
from tests.simulation.stored import DistantStore

PORT = 9092
EXPECTED = (StorageFailed, OSError, CoordinatorError, AppendError, CloseConnection, ProcessDied, ThreadFailed)
"""What tasks of the broker may end with; anything else is a bug."""
REQUEST_FAILED = "request failed"
"""What the log says of a request that its handler did not answer: no error of a disk is a reason for that."""


class SmallLogs(BrokerConfig):
    """Segments smaller than the configuration allows, so that short runs roll, retain and compact."""

    segment_bytes = 1 << 20
    write_ahead_after = 3  # type: ignore[assignment]  # a property, where nobody sets it

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        made = super().topic_config(overrides)
        log = dataclasses.replace(made.log, segment_bytes=min(made.log.segment_bytes, self.segment_bytes))
        return dataclasses.replace(made, log=log)


class BugLog(logging.Handler):
    """Keeps what the broker logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.bugs: list[str] = []
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        fields = getattr(record, "fields", None)
        error = record.exc_info[1] if record.exc_info else None
        unanswered = text == REQUEST_FAILED and isinstance(error, OSError)
        if error is not None and (unanswered or not isinstance(error, EXPECTED)):
            self.bugs.append(f"{text}: {logging.Formatter().formatException(record.exc_info)}")
        else:
            self.errors.append(f"{text} {fields or ''}")


class BrokerProcess:
    """See the head of this file. `kill` and `cut_power` end it at once; `start` starts it on what the disk kept."""

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        clock: WallClock,
        random: Random,
        settings: Mapping[str, str],
        *,
        segment_bytes: int,
        sync_s: float,
        any_subset: bool,
    ) -> None:
        self.scheduler = scheduler
        self.network = network
        self.clock = clock
        self.random = random
        self.disk = SimulatedDisk()
        self.settings = {"tallystick.write.ahead.bytes": "49152", **settings}
        self.segment_bytes = segment_bytes
        self.sync_s = sync_s
        self.slow_disk = 0.0
        self.threads = 0
        self.fails: Callable[[str], str] = lambda kind: ""
        """Of each process; see `SimulatedEnvironment`."""
        self.gate = SyncGate()
        self.any_subset = any_subset
        self.name = "broker"
        self.listening = LISTENING
        self.boots = 0
        self.starts = 0
        self.loop: ProcessLoop | None = None
        self.environment: SimulatedEnvironment | None = None
        self.node: Node | None = None
        self.server: Server | None = None
        self.ended: asyncio.Event | None = None
        self.on_end: Callable[[str], None] = lambda how: None
        self._watcher: Watcher | None = None
        self._looker: Watcher | None = None
        self.make_store: Callable[[], DistantStore] | None = None
        """Gives each process a way to the shared store, where logs are in one."""
        self.make_faults: Callable[[], Faults] | None = None
        """Gives each process fault points (`broker.faults`)."""

    def each(self) -> "list[BrokerProcess]":
        """All brokers of a run, where this is the only one."""
        return [self]

    @property
    def alive(self) -> bool:
        return self.loop is not None and self.loop.alive

    def watch_disk(self, watcher: Watcher | None, looker: Watcher | None) -> None:
        """See every disk operation, of this process and the ones after it; see `SimulatedDisk`."""
        self._watcher, self._looker = watcher, looker
        self._let_disk_be_watched()

    def _let_disk_be_watched(self) -> None:
        self.disk.watcher, self.disk.looker = self._watcher, self._looker

    def start(self) -> "asyncio.Future[None]":
        """Start a process; the future is done when it serves."""
        assert not self.alive
        self.starts += 1
        loop = self.loop = new_process(self.scheduler, f"{self.name}-{self.starts}")
        loop.machine = self.name
        loop.network = self.network
        loop.watch_tasks = self._task_done
        config = SmallLogs(self.settings)
        config.segment_bytes = self.segment_bytes
        environment = self.environment = SimulatedEnvironment(
            self.scheduler,
            self.clock,
            self.disk,
            Random(self.random.random()),
            boot_id=f"boot-{self.boots}",
            sync_s=self.sync_s,
        )
        environment.slow, environment.threads = self.slow_disk, self.threads
        environment.gate, environment.fails = self.gate, lambda kind: self.fails(kind)
        self._let_disk_be_watched()
        serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The broker's code runs when its loop does, not inside the caller's.
        loop.call_soon(lambda: loop.create_task(self._serve(config, environment, serving)))
        return serving

    async def _serve(
        self, config: BrokerConfig, environment: SimulatedEnvironment, serving: "asyncio.Future[None]"
    ) -> None:
        loop = self.loop
        faults = None if self.make_faults is None else self.make_faults()
        store = None if self.make_store is None else self.make_store()
        node = self.node = Node(
            config, environment, on_failure=lambda error: self._storage_failed(loop, error), faults=faults, store=store
        )
        try:
            services = await node.start({one.endpoint.listener: one.endpoint for one in self.listening})
        except (StorageFailed, OSError, AppendError, CoordinatorError, ThreadFailed) as error:
            self._storage_failed(loop, error)
            return
        except UnreadableDataFolder as refused:
            if not isinstance(refused.__cause__, OSError):
                raise
            self._storage_failed(loop, refused)  # the disk failed while the metadata was read: it is started again
            return
        server = self.server = Server(services, node.catalogue, self.listening, node)
        await server.start()
        if not serving.done():
            serving.set_result(None)
        await services.topics.wait_until_open()
        if loop is not None and any("could not be opened" in str(one.offline) for one in services.topics.offline()):
            # A failed call of the system took a log offline, and a start brings it back: the operator's, as with Kafka.
            loop.call_later(0.001, self.kill)

    def _storage_failed(self, loop: ProcessLoop | None, error: BaseException) -> None:
        """The process ends by itself, as `broker.__main__` does it: a moment later."""
        if loop is self.loop and loop is not None and loop.alive:
            loop.call_later(0.001, self.kill)

    async def stop(self) -> None:
        """An orderly end. Called on the broker's own loop."""
        assert self.server is not None and self.node is not None
        await self.server.stop()
        await self.node.stop()

    def stopped(self) -> None:
        """The orderly end has come, or the disk has failed in the middle of it: the process is gone."""
        assert self.node is not None
        self.kill("stop" if self.node.failure is None else "kill")

    def kill(self, how: str = "kill") -> None:
        """`kill -9`: the page cache keeps what was written."""
        if self.alive:
            self._dead()
            self.disk = self.disk.after_kill()
            self.on_end(how)

    def cut_power(self) -> None:
        """What was not synced may be lost."""
        if self.alive:
            self._dead()
            self.disk = self.disk.after_power_cut(self.random, self.any_subset)
            self.boots += 1
            self.on_end("power")

    def _dead(self) -> None:
        assert self.loop is not None
        self.loop.die()
        self.gate.waiting.clear()
        self.network.process_died(self.loop)

    def _task_done(self, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, EXPECTED):
            text = "".join(logging.Formatter().formatException((type(error), error, error.__traceback__)))
            self.scheduler.failures.append(f"a task of the broker failed: {text}")


class _Socket:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


def listening_at(host: str, port: int) -> list[Bound]:
    """The simulated network needs no sockets, only the port."""
    return [Bound(Endpoint("PLAINTEXT", host, port), [cast(socket.socket, _Socket((host, port)))])]


LISTENING = listening_at("10.0.0.1", PORT)
