"""The node's front: listeners, all connections, and what they share.

Rule 1. Serving begins when the node has started, so that nobody meets half a broker. Ports are bound before, for the
node writes down where it is to be found; a connection made meanwhile waits in the backlog.
Rule 2. Connections cost nothing while they are silent; too old, too many or too slow ones are closed with one line.
Rule 3. No connection gets a descriptor of the reserve that logs and syncs need (`broker.process.descriptor_limit`); how
many were refused is counted, and logged once a second at most.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

from broker.api.catalogue import Entry
from broker.api.charging import ChargingDispatcher
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Dispatcher
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.network.admission import Admission
from broker.network.connection import Connection
from broker.network.frame_buffers import FrameBuffers
from broker.network.handshakes import Handshake, Handshakes
from broker.network.listeners import Bound
from broker.network.muting import close_those_gone
from broker.network.request_timer import RequestTimer, TimingDispatcher
from broker.network.sweeping import in_slices
from broker.network.turns import Turns
from broker.process.descriptor_limit import highest_for_connections
from broker.process.eager import Finished
from broker.process.logging import EventLog
from broker.process.memory_budget import MemoryBudget
from storage.log import StorageFailed

if TYPE_CHECKING:
    from broker.security.tls.tls_listeners import TlsListeners

RECEIVE_BUFFER_BYTES = 256 << 10
LEAST_BACKLOG = 1024
"""One loop accepts and serves: more clients than Kafka's 50 may knock while it does something else."""
SWEEP_S = 1.0
STUCK_FRAME_S = 10
STRANGERS = 8
"""What part of the memory for requests those may have, all together, who are not authenticated. They do not take any of
the others': it would cost no account to have a million half requests wait here."""
DRAIN_S = 5.0

_log = EventLog("server")


class OwnerOfTasks(Protocol):
    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        """Begin work at once; what has to wait goes on in a task that outlives its connection."""


def backlog(config: BrokerConfig) -> int:
    """How many connections may wait to be accepted."""
    return max(LEAST_BACKLOG, config.get_int("socket.listen.backlog.size"))


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


class Server:
    """See the head of this file; it is the `ConnectionHost` of its connections."""

    def __init__(
        self,
        services: Services,
        catalogue: Mapping[int, Entry],
        bound: Sequence[Bound],
        tasks: OwnerOfTasks,
        tls: "TlsListeners | None" = None,
    ) -> None:
        self._services = services
        self._tasks = tasks
        self._servers: list[asyncio.Server] = []
        self._bound = bound
        self._tls = tls
        self._connections: dict[Connection, None] = {}
        self._admission = Admission(services.config, services.connection_rates)
        self.accepted = 0
        self.timer: RequestTimer | None = None
        self._highest_descriptor = highest_for_connections()
        self.refused_for_descriptors = 0
        self._may_log_refusal = True
        self._stopping = False
        self._sweeping: asyncio.TimerHandle | None = None
        config = services.config
        self._backlog = backlog(config)
        limit = config.get_int("queued.max.request.bytes")
        plain, charging = Dispatcher(services, catalogue), ChargingDispatcher(services, catalogue)
        self.dispatcher: Dispatcher = plain
        self._untimed: Dispatcher = plain
        services.client_quotas.on_change(lambda has_any: self._dispatch_by(charging if has_any else plain))
        limit = limit if limit > 0 else config.get_int("tallystick.request.memory.bytes")
        self.requests = MemoryBudget(limit, _later)
        self.strangers = MemoryBudget(ceil(limit / STRANGERS), _later)
        self.answers = services.answer_budget
        self.answer_bytes = config.get_int("tallystick.connection.answer.bytes")
        self.turns = Turns(services.environment.time_slice().clock)
        self.receive_buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self.encrypted_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES if tls is not None else 0))
        self.handshakes = Handshakes(
            config.get_int("tallystick.tls.handshakes.max"),
            ceil(config.get_int("tallystick.tls.handshake.timeout.ms") / 1000 / SWEEP_S),
        )
        self.frame_buffers = FrameBuffers()
        self.max_request_bytes = config.get_int("socket.request.max.bytes")
        self.tick = 0

    # ------------------------------------------------------------------ life

    async def start(self) -> list[Endpoint]:
        """Serve; returns where, by listener, with the real ports."""
        loop = asyncio.get_running_loop()
        for bound in self._bound:
            for one in bound.sockets:
                serving = await loop.create_server(
                    self._factory(bound.endpoint.listener), sock=one, backlog=self._backlog
                )
                self._servers.append(serving)
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)
        return [bound.endpoint for bound in self._bound]

    def stop_accepting(self) -> None:
        self._stopping = True
        for server in self._servers:
            server.close()

    def abort(self) -> None:
        """As a process does that is killed: nobody is answered any more."""
        self.stop_accepting()
        self._stop_sweeping()
        for connection in list(self._connections):
            connection.abort()

    def _stop_sweeping(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    async def stop(self, drain_s: float = DRAIN_S, hurry: asyncio.Event | None = None) -> None:
        """Take no more connections, let what is under way finish (unless in a hurry), close the rest."""
        self.stop_accepting()
        self._stop_sweeping()
        for connection in list(self._connections):
            connection.stop_reading()
        self._services.waiting.close()
        self._services.groups.hold_no_requests()
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

    def time_requests(self, timer: RequestTimer | None) -> None:
        """Have some of those that are read next timed; with None, no more."""
        self.dispatcher = self._untimed if timer is None else TimingDispatcher(self._untimed, timer)

    @property
    def connections_by_listener(self) -> dict[str, int]:
        """Those that were let in."""
        return self._admission.by_listener()

    # ------------------------------------------------------------------ for connections

    def connection_made(self, connection: Connection) -> str | None:
        self._connections[connection] = None
        if self._stopping:
            return "the broker is stopping"  # it was on its way when the port was closed: nobody will wait for it
        if connection.info.descriptor >= self._highest_descriptor:
            self._refused_for_descriptors()
            return ""
        return self._admission.enter(connection)

    def connection_lost(self, connection: Connection) -> None:
        self._services.fetch_sessions.connection_closed(connection.info.connection_id)
        self._services.share_sessions.connection_closed(connection.info.connection_id)
        self._connections.pop(connection, None)
        self._admission.leave(connection)

    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        return self._tasks.begin(work)

    def storage_failed(self, error: StorageFailed) -> None:
        self._services.fail(error)

    # ------------------------------------------------------------------ details

    def _dispatch_by(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = self._untimed = dispatcher

    def _factory(self, listener: str) -> Any:
        sasl = self._services.sasl.get(listener)
        tls = self._tls if self._services.config.security_protocol(listener).encrypts else None

        def make() -> asyncio.BufferedProtocol:
            self.accepted += 1
            gate = None if sasl is None else sasl.gate()
            connection = Connection(self, ConnectionInfo(self.accepted, listener, "", 0, gate=gate))
            return connection if tls is None else Handshake(self, tls.of(listener), connection)

        return make

    def _refused_for_descriptors(self) -> None:
        self.refused_for_descriptors += 1
        if self._may_log_refusal:
            self._may_log_refusal = False
            _log.warning(
                "connections refused, the process may not have more descriptors",
                connections=len(self._connections),
                refused=self.refused_for_descriptors,
            )

    def _sweep(self) -> None:
        """Once a second: close connections that are idle too long, not authenticated in time, or hold memory while it
        is short; count what clients have not taken."""
        self.tick += 1
        in_slices(self._all_looks(), self._services.environment.time_slice(), self._swept)

    def _all_looks(self) -> Iterator[None]:
        idle_ms = self._services.config.get_int("connections.max.idle.ms")
        for connection in list(self._connections):
            if connection in self._connections:  # it may have gone since the sweep began
                self._look_at(idle_ms, connection)
            yield
        yield from self._admission.close_excess()
        yield from close_those_gone(self._connections)
        yield from self.handshakes.sweep(self.tick)

    def _look_at(self, idle_ms: int, connection: Connection) -> None:
        active = connection.last_active
        # A connection that sent at a tick may have done so just before the next.
        if 0 <= idle_ms < (self.tick - 1 - active) * SWEEP_S * 1000 and not connection.working:
            connection.expire("idle for longer than connections.max.idle.ms")
        elif (gate := connection.info.gate) is not None and gate.is_overdue:
            connection.expire("not authenticated within tallystick.authentication.timeout.ms")
        elif active < self.tick - STUCK_FRAME_S / SWEEP_S and connection.stalls:
            connection.expire("a request that does not get on while memory is short")
        else:
            connection.count_unsent()

    def _swept(self) -> None:
        self._may_log_refusal = True
        if self._sweeping is not None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
