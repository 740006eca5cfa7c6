"""The node's front: listeners, all connections, and what they share.

Rule 1. Serving begins when the node has started, so that nobody meets half a broker. Ports are bound before, for the
node writes down where it is to be found; whoever knocks meanwhile waits a moment.
Rule 2. Connections cost nothing while they are silent; too old, too many or too slow ones are closed with one line.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from broker.api.context import ConnectionInfo
from broker.api.dispatch import Dispatcher
from broker.network.connection import Connection
from broker.network.frame_buffers import FrameBuffers
from broker.network.listeners import Endpoint, advertised, bind
from broker.network.memory_budget import MemoryBudget
from broker.node import Node
from broker.process.eager import Finished
from broker.process.logging import EventLog
from storage.log import StorageFailed

RECEIVE_BUFFER_BYTES = 256 << 10
LEAST_BACKLOG = 1024
"""One loop accepts and serves: more clients than Kafka's 50 may knock while it does something else."""
SWEEP_S = 1.0
STUCK_FRAME_S = 30
DRAIN_S = 5.0

_log = EventLog("server")


class Server:
    """See the head of this file; it is the `ConnectionHost` of its connections."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._servers: list[asyncio.Server] = []
        self._bound: list[tuple[Endpoint, list[socket.socket]]] = []
        self._connections: dict[Connection, None] = {}
        self._per_host: Counter[str] = Counter()
        self._accepted = 0
        self._stopping = False
        self._sweeping: asyncio.TimerHandle | None = None
        config = node.config
        self._backlog = max(LEAST_BACKLOG, config.get_int("socket.listen.backlog.size"))
        limit = config.get_int("queued.max.request.bytes")
        self.dispatcher = Dispatcher(node, node.catalogue)
        self.requests = MemoryBudget(limit if limit > 0 else config.get_int("tallystick.request.memory.bytes"))
        self.answers = node.answer_budget
        self.receive_buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self.frame_buffers = FrameBuffers()
        self.max_request_bytes = config.get_int("socket.request.max.bytes")
        self.tick = 0

    # ------------------------------------------------------------------ life

    def bind(self) -> None:
        """Take the ports, and tell the node what clients are told. Raises `BadListener`."""
        for listener in self._node.config.listeners:
            made = bind(listener, self._backlog)
            endpoint = Endpoint(listener.listener, listener.host, made[0].getsockname()[1])
            self._bound.append((endpoint, made))
        bound = [endpoint for endpoint, _ in self._bound]
        self._node.endpoints = advertised(bound, self._node.config.advertised_listeners)

    async def start(self) -> list[Endpoint]:
        """Serve; returns where, by listener, with the real ports. Raises `BadListener` where it has to bind first."""
        if not self._bound:
            self.bind()
        loop = asyncio.get_running_loop()
        for endpoint, sockets in self._bound:
            for one in sockets:
                serving = await loop.create_server(self._factory(endpoint.listener), sock=one, backlog=self._backlog)
                self._servers.append(serving)
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)
        return [endpoint for endpoint, _ in self._bound]

    def stop_accepting(self) -> None:
        self._stopping = True
        for server in self._servers:
            server.close()

    async def stop(self, drain_s: float = DRAIN_S, hurry: asyncio.Event | None = None) -> None:
        """Take no more connections, let what is under way finish (unless in a hurry), close the rest."""
        self.stop_accepting()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._connections):
            connection.stop_reading()
        self._node.waiting.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + drain_s
        while any(connection.busy for connection in self._connections) and loop.time() < deadline:
            if hurry is not None and hurry.is_set():
                break
            await asyncio.sleep(0.005)
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.abort()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # ------------------------------------------------------------------ for connections

    def connection_made(self, connection: Connection) -> str | None:
        self._connections[connection] = None
        host = connection.info.peer_host
        self._per_host[host] += 1
        if self._stopping:
            return "the broker is stopping"  # it was on its way when the port was closed: nobody will wait for it
        config = self._node.config
        if len(self._connections) > config.get_int("max.connections"):
            return "max.connections reached"
        if self._per_host[host] > config.get_int("max.connections.per.ip"):
            return "max.connections.per.ip reached"
        return None

    def connection_lost(self, connection: Connection) -> None:
        if self._connections.pop(connection, self) is None:
            host = connection.info.peer_host
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]

    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        return self._node.begin(work)

    def storage_failed(self, error: StorageFailed) -> None:
        self._node.fail(error)

    # ------------------------------------------------------------------ details

    def _factory(self, listener: str) -> Any:
        def make() -> Connection:
            self._accepted += 1
            return Connection(self, ConnectionInfo(self._accepted, listener, "", 0))

        return make

    def _sweep(self) -> None:
        """Once a second: close who has been silent for too long, or holds memory while others wait for it."""
        self.tick += 1
        idle_ms = self._node.config.get_int("connections.max.idle.ms")
        # Whoever spoke at a tick may have done so just before the next.
        oldest = self.tick - 1 - idle_ms / 1000 / SWEEP_S if idle_ms >= 0 else -1
        stuck = self.tick - STUCK_FRAME_S / SWEEP_S
        for connection in list(self._connections):
            active = connection.last_active
            if active < oldest and not connection.working:
                connection.expire("idle for longer than connections.max.idle.ms")
            elif active < stuck and connection.frame_begun and self.requests.exhausted:
                connection.expire("a request that does not get on while memory is short")
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
