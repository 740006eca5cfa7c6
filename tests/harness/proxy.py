"""A TCP proxy that cuts connections in mid-flight, lets nobody through, or stands still in one direction.

It stands between a client and a broker, forwards bytes both ways in a thread of its own, and on request resets every
connection: sometimes after the broker has got a request whose answer then never arrives, which is what makes a
producer retry. The broker must advertise the proxy's address, or clients go around it: so the proxy rewrites
nothing, and the broker is started with `--advertised-listeners` naming it.
"""

import asyncio
import contextlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: close sends RST, so that nothing more is delivered."""


_PORTS = 15_000, 30_000
_WORKERS = 10
"""Of pytest-xdist, at most: each has ports of its own, for one is taken a moment after it was looked for."""
_given: set[int] = set()
"""By this process. Whom one was given may listen there only after others have asked."""


def free_port() -> int:
    """One below those that outgoing connections are given, and not one that was given before while there are others:
    until somebody listens, nobody else takes it."""
    for _ in range(2):
        ports = [port for port in range(*_own_ports()) if port not in _given]
        random.SystemRandom().shuffle(ports)
        for port in ports:
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _given.add(port)
                return port
        _given.clear()
    raise OSError(f"no port is free of {_PORTS}")


def _own_ports() -> tuple[int, int]:
    first, end = _PORTS
    share = (end - first) // _WORKERS
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    return first + worker * share, first + (worker + 1) * share


def free_ports(count: int) -> int:
    """The first of so many in a row that are free."""
    for _ in range(1000):
        first = free_port()
        ports = range(first, first + count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in ports:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            if _given.isdisjoint(ports[1:]):
                _given.update(ports)
                return first
    raise OSError(f"no {count} ports in a row are free of {_PORTS}")


class CuttingProxy:
    """Listens on `port`, forwards to `target_port()`, which may raise `OSError`; `cut` drops all connections, losing
    what the broker says last where that is wanted; `shut` lets nobody in any more, and after `stand_still` what is sent
    arrives later, both until `mend`.
    """

    def __init__(self, port: int, target_port: Callable[[], int]) -> None:
        self.port = port
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._losing = self._is_shut = False
        self._flows = {False: asyncio.Event(), True: asyncio.Event()}
        """Set while bytes flow: requests (False), answers (True)."""
        for flow in self._flows.values():
            flow.set()
        self.cuts = 0
        self.swallowed_bytes = 0
        self._cut_each_bytes = self._cuts_left = self._since_cut = 0
        self._cutting: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "CuttingProxy":
        self._thread.start()
        self._call(self._listen())
        return self

    def stop(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, *, losing_answers: bool = False) -> None:
        """Reset every connection. With `losing_answers`, swallow the broker's next answers first, then reset."""
        self._call(self._cut(losing_answers))

    def cut_each(self, size_bytes: int, *, times: int) -> None:
        """From now on cut whenever clients have sent so much more, every other time losing answers to what the broker
        has done; so many times at most.
        """
        self._cut_each_bytes, self._cuts_left, self._since_cut = size_bytes, times, 0

    def shut(self) -> None:
        """Nobody gets through, and who was through is not any more."""
        self._call(self._set(is_shut=True))

    def stand_still(self, *, requests: bool, answers: bool) -> None:
        """Connections stay; what was sent in these directions waits."""
        self._call(self._set(still=[answered for answered, wanted in ((False, requests), (True, answers)) if wanted]))

    def mend(self) -> None:
        """As if nothing had been."""
        self._call(self._set())

    async def _set(self, *, is_shut: bool = False, still: Sequence[bool] = ()) -> None:
        self._is_shut = is_shut
        for answered, flow in self._flows.items():
            (flow.clear if answered in still else flow.set)()
        if is_shut:
            self._drop_all()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._set(is_shut=True)
        await asyncio.sleep(0)

    async def _cut(self, losing_answers: bool) -> None:
        self._losing = losing_answers
        before = self.swallowed_bytes
        for _ in range(50 if losing_answers else 0):
            await asyncio.sleep(0.01)
            if self.swallowed_bytes > before:
                break
        self._drop_all()
        self._losing = False
        self.cuts += 1

    def _drop_all(self) -> None:
        for writer in list(self._writers):
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):  # It was lost in this turn.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_shut:
            writer.transport.abort()
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target_port())
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, upstream_writer}
        requests = asyncio.ensure_future(self._pump(reader, upstream_writer, answers=False))
        answers = asyncio.ensure_future(self._pump(upstream_reader, writer, answers=True))
        await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, upstream_writer):
            end.transport.abort()
            self._writers.discard(end)
        await asyncio.gather(requests, answers)

    def _count(self, size_bytes: int) -> None:
        self._since_cut += size_bytes
        if self._cuts_left and self._since_cut >= self._cut_each_bytes:
            self._since_cut = 0
            self._cuts_left -= 1
            self._cutting = asyncio.ensure_future(self._cut(self._cuts_left % 2 == 0))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        try:
            while part := await reader.read(65536):
                if answers and self._losing:
                    self.swallowed_bytes += len(part)
                    continue
                if not answers:
                    self._count(len(part))
                await self._flows[answers].wait()
                writer.write(part)
                await writer.drain()
        except (OSError, RuntimeError):
            return
