"""Responses with parts in files: whole and in order for slow readers too, nothing left open behind them."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from struct import unpack
from types import SimpleNamespace

import pytest
import uvloop

from broker.api.context import ConnectionInfo
from broker.disk.descriptor_cache import LocalFile
from broker.disk.file_region import CAN_SEND_FILES
from broker.disk.local_files import LocalFiles
from broker.network.connection import Connection
from tests.unit.broker.doubles import FakeCall, FakeHost, request

pytestmark = pytest.mark.skipif(not CAN_SEND_FILES, reason="files are sent from where they lie on Linux only")

CONTENT = b"".join(number.to_bytes(4, "big") for number in range(1_500_000))
PIECES = ((0, 3_000_000), (3_000_000, 5), (3_000_005, 2_999_995))
"""How the file is assigned to a response."""


class Answers(FakeCall):
    """An answer is a list of parts."""

    entry = SimpleNamespace(name="Fake", response=list)  # type: ignore[assignment]

    def encode(self, response: list[object]) -> list[object]:  # type: ignore[override]
        size = sum(map(len, response))  # type: ignore[arg-type]
        return [(4 + size).to_bytes(4, "big") + self.number.to_bytes(4, "big"), *response]


class Story:
    """A connection of the broker over real sockets, on the loop that the broker uses."""

    def __init__(self, folder: Path) -> None:
        self.files = LocalFiles(str(folder))
        self.file: LocalFile = self.files.open("log", create=True)
        self.file.append([CONTENT])
        self.host = FakeHost(self.behave)
        self.host.dispatcher.read = lambda info, frame: Answers(7, unpack(">i", bytes(frame[2:6]))[0], b"")
        self.make_pieces: Callable[[], list[object]] = self.pieces

    def pieces(self) -> list[object]:
        return [self.file.read_to_send(position, size) for position, size in PIECES]

    def behave(self, call: FakeCall) -> list[object]:
        """Even requests are answered out of the file, odd ones with a word."""
        return [b"small"] if call.number % 2 else [*self.make_pieces(), b"the end"]

    async def tell(self, reader: Callable[[asyncio.AbstractEventLoop, socket.socket], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self.host, ConnectionInfo(1, "PLAINTEXT", "", 0)), "127.0.0.1", 0
        )
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await reader(loop, client)
        while not self.host.lost:
            await asyncio.sleep(0)
        server.close()
        assert self.files.regions.open == 0


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    made = Story(tmp_path / "data")
    yield made
    made.files.close()


async def frame(loop: asyncio.AbstractEventLoop, client: socket.socket) -> tuple[int, bytes]:
    size, number = unpack(">ii", await exactly(loop, client, 8))
    return number, await exactly(loop, client, size - 4)


async def exactly(loop: asyncio.AbstractEventLoop, client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        got = await loop.sock_recv(client, min(200_000, size - len(found)))
        assert got, "the broker has closed the connection"
        found += got
    return found


def test_pipelined_responses_reach_a_slow_reader_in_order(story: Story) -> None:
    async def reader(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        await loop.sock_sendall(client, b"".join(request(number) for number in (1, 2, 3, 4, 5)))
        for number in (1, 2, 3, 4, 5):
            expected = b"small" if number % 2 else CONTENT + b"the end"
            assert await frame(loop, client) == (number, expected)

    uvloop.run(story.tell(reader))


def test_a_disconnect_midway_leaves_nothing_open(story: Story) -> None:
    async def reader(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        await loop.sock_sendall(client, request(2))
        await exactly(loop, client, 1000)
        assert story.files.regions.open > 0

    uvloop.run(story.tell(reader))


def test_the_opened_file_is_sent_though_its_name_is_replaced(story: Story) -> None:
    held: list[object] = story.pieces()
    story.make_pieces = lambda: held
    story.files.delete("log")
    story.file.close()
    story.files.open("log", create=True).append([bytes(len(CONTENT))])

    async def reader(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        await loop.sock_sendall(client, request(2))
        assert await frame(loop, client) == (2, CONTENT + b"the end")
        held.clear()

    uvloop.run(story.tell(reader))


def test_a_file_that_ends_too_early_closes_the_connection(story: Story) -> None:
    os.truncate(Path(story.files.root) / "log", 4_000_000)

    async def reader(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        await loop.sock_sendall(client, request(2))
        with pytest.raises((AssertionError, ConnectionResetError)):
            await frame(loop, client)

    uvloop.run(story.tell(reader))


def test_past_the_limit_of_descriptors_the_bytes_are_read(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path / "data"), descriptors=8)
    file = files.open("log", create=True)
    file.append([CONTENT])
    held = [file.read_to_send(0, 10) for _ in range(3)]
    assert files.regions.open == 2
    assert held[2] == CONTENT[:10]
    held.clear()
    assert files.regions.open == 0
    files.close()
