"""Links that can be cut: a port of their own on loopback, and behind it whatever is to be reached.

They live in a loop on a thread of theirs. What is cut is closed and refused; what stands still keeps its connections,
and what was sent in that direction arrives later.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CHUNK = 1 << 16
PATIENCE_S = 30.0

Place = tuple[str, int]


class Link:
    """One; made by `Links.link`. Safe to use from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, behind: Callable[[], Place]) -> None:
        self.port = 0
        self._loop = loop
        self._behind = behind
        self._server: asyncio.Server | None = None
        self._flows = {True: asyncio.Event(), False: asyncio.Event()}
        """By direction, towards what is behind it or back: set while bytes flow."""
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        for flow in self._flows.values():
            flow.set()

    async def begin(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Nobody gets through, and who was through is not any more."""
        self._do(self._cut)

    def stand_still(self, *, towards: bool, back: bool) -> None:
        self._do(lambda: self._stand_still(towards=towards, back=back))

    def mend(self) -> None:
        self._do(self._mend)

    def _do(self, work: Callable[[], None]) -> None:
        async def done() -> None:
            work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(PATIENCE_S)

    def _cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def _stand_still(self, *, towards: bool, back: bool) -> None:
        for direction, stands in ((True, towards), (False, back)):
            if stands:
                self._flows[direction].clear()

    def _mend(self) -> None:
        self._is_cut = False
        for flow in self._flows.values():
            flow.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._behind())
        except OSError:
            self._leave(writer)
            return
        self._writers.add(far_writer)
        pumps = [
            self._loop.create_task(self._pump(reader, far_writer, self._flows[True])),
            self._loop.create_task(self._pump(far_reader, writer, self._flows[False])),
        ]
        self._pumps.update(pumps)
        try:
            await asyncio.wait(pumps)
        finally:
            for pump in pumps:
                pump.cancel()
                self._pumps.discard(pump)
            self._leave(writer)
            self._leave(far_writer)

    def _leave(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        """To the end of what one side sends. An end in order is passed on, one without order closes both."""
        try:
            while data := await reader.read(CHUNK):
                await flows.wait()
                writer.write(data)
                await writer.drain()
            await flows.wait()
            if writer.can_write_eof():
                writer.write_eof()
        except (OSError, RuntimeError):
            writer.transport.abort()

    async def end(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut()
        self._mend()
        for pump in list(self._pumps):
            pump.cancel()
        if self._pumps:
            await asyncio.wait(self._pumps)


class Links:
    """See the head of this file; `close` them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self._all: list[Link] = []

    def link(self, behind: Callable[[], Place]) -> Link:
        made = Link(self._loop, behind)
        self._all.append(made)
        self._run(made.begin())
        return made

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def close(self) -> None:
        for one in self._all:
            with contextlib.suppress(TimeoutError):
                self._run(one.end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
