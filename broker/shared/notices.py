"""Hints from node to node through PostgreSQL: that it is worth while to look. One may be lost, none is relied on."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from broker.shared.connections import Address, Connection, connect, translated
from storage.shared.store import StoreRefused, StoreUnreachable

LONGEST_NAME = 63
"""Of a channel, in PostgreSQL. Two schemas that begin alike for so long have their hints in common."""


class Notices:
    """Those of one node. One connection hears them, which is made when somebody waits, and again when it is gone. Who
    waits for a hint does not wait for the connection: a server that says nothing would keep a node from looking."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.channel = f"tallystick_{address.schema}"[:LONGEST_NAME]
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()
        self._closed = False

    async def wait(self, wait_s: float) -> None:
        """Until something was told since the last time, or so long."""
        self._listen()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._heard.wait()
        self._heard.clear()

    def _listen(self) -> None:
        listens = self._connection is not None and not self._connection.is_closed()
        if not listens and self._connecting is None and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            with contextlib.suppress(StoreUnreachable, StoreRefused):  # The next who waits has it tried again.
                self._connection = await self._connected()
        finally:
            self._connecting = None

    async def _connected(self) -> Connection:
        connection = await connect(self._address)
        try:
            add_listener: Callable[..., Any] = getattr(connection, "add_listener")  # noqa: B009
            await add_listener(self.channel, lambda *_: self._heard.set())
        except BaseException as error:
            connection.terminate()
            raise translated(error, was_sent=False) from error
        return connection

    async def close(self) -> None:
        """Whoever waits goes on. Nothing connects any more."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._connection is not None:
            self._connection.terminate()
        self._heard.set()
