"""The broker as the HTTP thread sees it.

Rule. Nothing of the broker is touched in this thread but numbers that a stale reading of does no harm. All else runs on
the broker's loop, in short turns (`on_loop`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from broker.api.services import Services
from broker.control.commands import Controlled
from broker.network.server import Server
from broker.node import Node
from broker.process.stall_monitor import StallMonitor

PATIENCE_S = 5.0
"""How long an answer waits for the broker's loop. One that is kept busy for longer is not alive."""

T = TypeVar("T")


class Unanswered(Exception):
    """The broker's loop did not do it in time, or does nothing any more."""


class Collects(Protocol):
    """What makes a scrape (`broker.http.metrics`)."""

    async def scrape(self, broker: "SeenBroker") -> bytes:
        """All metrics, as text."""


class SeenBroker:
    """Made on the broker's loop, when it serves."""

    def __init__(
        self,
        node: Node,
        server: Server,
        monitor: StallMonitor | None,
        controlled: Controlled | None,
        collecting: Collects,
    ) -> None:
        self.node = node
        self.server = server
        self.monitor = monitor
        self.collecting = collecting
        self.controlled = controlled
        """Where it was started to be."""
        self.is_stopping = False
        self.was_ready = False
        """Whether all that a start has to do was once done."""
        self._loop = asyncio.get_running_loop()

    @property
    def services(self) -> Services:
        return self.node.services

    async def on_loop(self, work: Callable[[], Awaitable[T]], patience_s: float = PATIENCE_S) -> T:
        """What `work` returns on the broker's loop, where it is given up after a time. Work that looks at many things
        takes turns with others (`broker.process.time_slice`). Raises `Unanswered`."""

        async def run() -> T:
            return await work()

        running = run()
        try:
            answer = asyncio.run_coroutine_threadsafe(running, self._loop)
        except RuntimeError:
            running.close()
            raise Unanswered("the broker has stopped") from None
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), patience_s)
        except TimeoutError:
            raise Unanswered(f"the broker's loop did not answer within {patience_s:g} s") from None
        except asyncio.CancelledError:
            if answer.cancelled():
                raise Unanswered("the broker is stopping") from None
            raise

    def call_on_loop(self, work: Callable[[], None]) -> None:
        """Called there in one of the next turns. Raises `Unanswered`."""
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            raise Unanswered("the broker has stopped") from None
