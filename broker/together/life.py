"""One node among others of its process, from its start to its end: the node and the sockets in front of it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint, advertised
from broker.journal.journal import Journal, OfId
from broker.network.listeners import Bound
from broker.network.server import Server
from broker.node import Node
from broker.process.environment import OwnProcess, RealEnvironment
from broker.starting import tls_of
from broker.upkeep.long_lived import LongLived
from storage.shared.memory_store import StoreInMemory

if TYPE_CHECKING:
    from broker.faults.control import Faults


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the nodes of one process have in common."""

    environment: RealEnvironment
    store: StoreInMemory
    faults: "Faults | None"
    journal: Journal | None
    traced: Callable[[str, OfId], None] | None


class Crashed(asyncio.CancelledError):
    """A fault has struck the node: whatever it was at is given up there, and is no bug."""


class Life(OwnProcess):
    """See the head of this file; it is the victim of its fault points. `on_failure` is called where it ends by itself,
    which no node is to do here, `on_crash` where a fault ends it."""

    def __init__(
        self,
        config: BrokerConfig,
        around: Surroundings,
        *,
        on_failure: Callable[[BaseException], None],
        on_crash: Callable[["Life"], None],
    ) -> None:
        self.config = config
        self._environment = around.environment
        self._on_failure = on_failure
        self._on_crash = on_crash
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._starting: asyncio.Task[Any] | None = None
        self._server: Server | None = None
        self._beside: list[asyncio.Task[None]] = []
        self.node = Node(
            config,
            around.environment,
            on_failure=self._failed,
            faults=None if around.faults is None else around.faults.striking(self),
            traced=around.traced,
            store=around.store,
            journal=around.journal,
        )

    @property
    def services(self) -> Services:
        return self.node.services

    async def start(self, listening: Sequence[Bound]) -> list[Endpoint]:
        """Serve there; returns where. Cancelled where a fault ends it before that. Raises `StorageFailed`,
        `ConfigError`, `BadTls`."""
        endpoints = advertised([bound.endpoint for bound in listening], self.config.advertised_listeners)
        self._starting = asyncio.current_task()
        services = await self.node.start(endpoints)
        tls = await tls_of(self.config, self._environment)
        self._starting = None
        self._server = Server(services, self.node.catalogue, listening, self.node, tls)
        bound = await self._server.start()
        create_task = asyncio.get_running_loop().create_task
        self._beside.append(create_task(LongLived(services.topics).keep_out_of_sight()))
        if tls is not None:
            self._beside.append(create_task(tls.keep_current()))
        return bound

    async def drain(self, hurry: asyncio.Event) -> None:
        """Serve nobody any more: what is under way is answered first, as far as that does not take long."""
        if self._server is not None:
            await self._server.stop(hurry=hurry)

    async def end(self) -> None:
        """As by `kill -9`: nobody is answered, nothing is committed, and the others hear at once that it is gone."""
        self._stop()
        await self.node.die()

    def crash(self) -> None:
        """The node alone: the process goes on with the others. Raises `Crashed`."""
        if threading.current_thread() is threading.main_thread():
            self._crash()
        else:
            self._loop.call_soon_threadsafe(self._crash)
        raise Crashed

    def _crash(self) -> None:
        if not self._is_over:
            self._stop()
            self._on_crash(self)

    def _stop(self) -> None:
        self._is_over = True
        if self._starting is not None:
            self._starting.cancel()
        for task in self._beside:
            task.cancel()
        if self._server is not None:
            self._server.abort()
        self.node.abandon()

    def _failed(self, error: BaseException) -> None:
        if not self._is_over:
            self._on_failure(error)
