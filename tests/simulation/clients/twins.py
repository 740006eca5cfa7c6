"""A request sent once more while the first delivery of it waits for its answer: what a client does whose connection is
gone, and the broker has not heard of that. The answer to the second delivery promises as much as the one to the first.

The second goes over a connection of its own, and arrives behind the first: had it overtaken it, it would be another
story (KAFKA-14920).
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost
from tests.harness.heard import HeardConnection
from tests.harness.network import End
from tests.simulation.broker_process import PORT
from tests.simulation.world import World

HOST = "10.0.0.1"
PATIENCE_S = 10.0


class Twins:
    """The second connection of one client."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._connection: Connection | None = None
        self._port = PORT

    def draw(self, first: Connection) -> bool:
        """Whether the request that was sent last is to be sent twice. One that waits behind others is not: nobody
        knows when its turn is."""
        world = self._world
        return bool(world.plan.twins) and len(first._waiting) == 1 and world.twin_random.random() < world.plan.twins

    async def ask(
        self,
        first: Connection,
        answer: "asyncio.Future[Any]",
        request: object,
        version: int,
        repeated: Callable[[bool], None],
        port: int = PORT,
    ) -> Any:
        """The answer to the second delivery, or None where there is none."""
        end = first._transport
        assert isinstance(end, End)
        try:
            if self._port != port:
                self.drop()
            if self._connection is None or self._connection.is_lost:
                trace = self._world.history.trace
                self._connection = await HeardConnection.hear(trace, HOST, port, client_id="twin")
                self._port = port
            connection = self._connection  # another may be wanted meanwhile
            await asyncio.sleep(max(0.0, end.all_arrived_at - self._world.scheduler.now) + 1e-5)
            if end.is_closing():
                return None  # the first may never arrive
            if not answer.done():
                self._world.hit("network.twice-at-once")
            repeated(True)
            try:
                return await asyncio.wait_for(connection.ask(request, version), PATIENCE_S)
            finally:
                repeated(False)
        except (ConnectionLost, OSError, TimeoutError):
            self.drop()
            return None

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
