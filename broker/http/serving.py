"""The HTTP side: a thread with an event loop of its own, so that no client of it takes a turn of the broker's.

It is started when the broker serves, and stopped when the broker has stopped: whoever asks meanwhile hears that it is
not ready.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import uvloop
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.server import ServerState

from broker.api.metering.request_meter import ApiMeter
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint, reachable
from broker.control.commands import Controlled
from broker.disk.sync_meter import SyncMeter
from broker.http.address import HttpAddress, http_address
from broker.http.bounded_connection import IDLE_S, MOST_HEAD_BYTES, BoundedConnection
from broker.http.guarded import Handler, guarded
from broker.http.metrics.collecting import Collecting
from broker.http.operation import Operation, answered
from broker.http.routes.families import all_operations
from broker.http.seen_broker import SeenBroker
from broker.network.listeners import SocketSettings, bind
from broker.network.request_timer import RequestTimer
from broker.network.server import Server
from broker.node import Node
from broker.process.environment import measuring_clock_ns
from broker.process.logging import EventLog
from broker.process.stall_monitor import StallMonitor

BACKLOG = 128
STOP_S = 2.0
"""How long the end waits for the thread."""

_log = EventLog("http")


class HttpSide:
    """Of one broker, as its settings say."""

    def __init__(self, config: BrokerConfig) -> None:
        """Takes the port. Raises `ConfigError`, or `BadListener`."""
        self._address = http_address(config)
        self._sockets = bind(self._address.endpoint, SocketSettings(BACKLOG))
        self._broker: SeenBroker | None = None
        self._collecting: Collecting | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settle: Callable[[BaseException | None], object] = lambda error: None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def url(self) -> str:
        """Where a program on this machine reaches it."""
        endpoint = self._address.endpoint
        port = self._sockets[0].getsockname()[1]
        return f"http://{reachable(Endpoint(endpoint.listener, endpoint.host, port))}"

    def measure(self, node: Node) -> None:
        """From now on, before anybody is served."""
        syncs, meters = SyncMeter(measuring_clock_ns), {}
        for key, entry in node.catalogue.items():
            meters[key] = ApiMeter(entry.name, entry.versions.stop, entry.response)
            node.catalogue[key] = replace(entry, meter=meters[key])
        node.group_commit.meter = syncs
        self._collecting = Collecting([meters[key] for key in sorted(meters)], syncs)

    async def start(
        self, node: Node, server: Server, monitor: StallMonitor | None, controlled: Controlled | None
    ) -> None:
        """Returns when it serves; raises what kept it from that."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # the rest is said of bad requests, by anybody
        if controlled is not None:
            _log.warning("whoever reaches the HTTP side may make this broker fail, and move its clock", at=self.url)
        assert self._collecting is not None, "nothing is measured"
        RequestTimer(server, measuring_clock_ns).begin()
        self._broker = SeenBroker(node, server, monitor, controlled, self._collecting)
        here = asyncio.get_running_loop()
        serves: asyncio.Future[None] = here.create_future()

        def settle(error: BaseException | None) -> None:
            if error is None:
                serves.set_result(None)
            else:
                serves.set_exception(error)

        self._settle = lambda error: here.call_soon_threadsafe(settle, error)
        self._thread.start()
        await serves

    def broker_stops(self) -> None:
        """Whoever asks hears that it is not ready."""
        assert self._broker is not None
        self._broker.is_stopping = True

    def stop(self) -> None:
        """End the thread. Called when the broker does nothing any more."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        state = ServerState()
        try:
            listening = await self._listen(self._loop, state)
        except BaseException as error:  # noqa: BLE001  raised where the start is waited for
            self._settle(error)
            return
        self._settle(None)
        await self._stop.wait()
        for server in listening:
            server.close()
        for connection in list(state.connections):
            connection.transport.abort()

    async def _listen(self, loop: asyncio.AbstractEventLoop, state: ServerState) -> list[asyncio.Server]:
        assert self._broker is not None
        config = Config(
            application(self._address, self._broker),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            timeout_keep_alive=int(IDLE_S),
        )
        config.load()
        waiting: dict[BoundedConnection, None] = {}

        def make() -> BoundedConnection:
            return BoundedConnection(config, state, waiting, loop)

        return [await loop.create_server(make, sock=one, backlog=BACKLOG) for one in self._sockets]


def application(address: HttpAddress, broker: SeenBroker) -> Starlette:
    """A route for each path, whose methods are guarded each. (A route for each method would answer a wrong one with
    the methods of the first in `Allow`, where those of the path belong: RFC 9110.)"""
    paths: dict[str, dict[str, Handler]] = {}
    for one in all_operations():
        paths.setdefault(one.path, {})[one.method] = guarded(address, one, _handler(one, broker))
    return Starlette(
        routes=[Route(_matching(path), _by_method(handlers), methods=[*handlers]) for path, handlers in paths.items()],
        exception_handlers={404: _not_here, 405: _not_here},
    )


def _by_method(handlers: Mapping[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handle


class _AnyText(StringConvertor):
    """Nobody keeps a transactional id or a group from having slashes and ends of lines in it."""

    regex = r"[\s\S]*"


register_url_convertor("any_text", _AnyText())


def _matching(path: str) -> str:
    return path.replace("_id}", "_id:any_text}")


def _handler(operation: Operation, broker: SeenBroker) -> Handler:
    async def handle(request: Request) -> Response:
        return await answered(operation, broker, request)

    return handle


async def _not_here(request: Request, problem: Exception) -> Response:
    status = getattr(problem, "status_code", 404)
    sentence = "there is no such path" if status == 404 else "there is no such method of this path"
    return JSONResponse({"error": sentence}, status, getattr(problem, "headers", None))
