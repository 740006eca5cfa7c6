"""A connection and the buffers of its large requests: given back when a request is finished with, however it ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.api.catalogue import NO_ANSWER, Deferred
from broker.network.connection import Connection
from broker.network.frame_buffers import ROUND_BYTES
from tests.unit.broker.doubles import PRODUCE, FakeCall, FakeHost, deliver, request

SIZE = 3 * ROUND_BYTES


class LargeRequests:
    """A client that sends large Produces; `behave` gets a view of the body of each."""

    def __init__(self, behave: Any) -> None:
        self.host = FakeHost(lambda call: behave(self.bodies.pop()))
        self.bodies: list[memoryview] = []
        read = self.host.dispatcher.read

        def read_and_keep(info: Any, frame: memoryview) -> FakeCall:
            self.bodies.append(memoryview(frame)[6:])
            return read(info, frame)

        self.host.dispatcher.read = read_and_keep
        self.connection, self.transport = self.host.connect()
        self.send(0)  # the first large request of a client has a buffer that is not used again

    def send(self, number: int, connection: Connection | None = None) -> None:
        deliver(connection or self.connection, request(number, key=PRODUCE, body=bytes([number]) * (SIZE - 6)), 50_000)

    @property
    def free(self) -> int:
        return self.host.frame_buffers.free_bytes // SIZE


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("behave", [lambda body: b"", lambda body: NO_ANSWER])
def test_a_request_applied_at_once_gives_its_buffer_back(behave: Any) -> None:
    async def story() -> None:
        client = LargeRequests(behave)
        for number in range(1, 5):
            client.send(number)
            assert client.free == 1

    run(story())


def test_records_held_by_a_handler_are_not_overwritten() -> None:
    async def story() -> None:
        held: list[memoryview] = []
        client = LargeRequests(lambda body: (held.append(body), b"")[1])
        for number in range(1, 5):
            client.send(number)
        assert [set(body) for body in held] == [{number} for number in range(5)]
        assert client.free == 0

    run(story())


def test_a_produce_that_waits_for_its_sync_needs_no_buffer() -> None:
    async def story() -> None:
        wait: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        client = LargeRequests(lambda body: Deferred(wait))
        for number in range(1, 5):
            client.send(number)
        assert client.free == 1
        wait.set_result(b"")
        await turns()
        assert client.free == 1

    run(story())


@pytest.mark.parametrize("ending", ["answer", "deferred", "bug", "closed", "lost"])
def test_a_request_that_waits_keeps_its_buffer_until_it_ends(ending: str) -> None:
    async def story() -> None:
        go_on = asyncio.Event()
        seen: list[set[int]] = []

        async def work(body: memoryview) -> Any:
            await go_on.wait()
            seen.append(set(body))
            if ending == "bug":
                raise RuntimeError("a bug")
            if ending == "deferred":
                done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                done.set_result(b"")
                return Deferred(done)
            return b""

        client = LargeRequests(lambda body: b"" if body[0] != 1 else work(body))
        client.send(1)
        assert client.free == 0
        if ending == "closed":
            client.connection.close()
        if ending in ("closed", "lost"):
            client.connection.connection_lost(None)
        other, _ = client.host.connect()
        for number in (2, 3):
            client.send(number, other)
        between = client.free
        go_on.set()
        await turns()
        assert seen == [{1}]
        assert client.free == between + (ending != "bug")  # a traceback holds the records: that buffer is given up

    run(story())


def test_a_wait_cancelled_with_its_connection_gives_its_buffer_back() -> None:
    async def story() -> None:
        wait: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        client = LargeRequests(lambda body: b"" if body[0] != 1 else wait)
        client.send(1)
        assert client.free == 0
        client.connection.connection_lost(None)
        await turns()
        assert wait.cancelled()
        assert client.free == 1

    run(story())


def test_requests_that_were_never_applied_give_their_buffers_back() -> None:
    async def story() -> None:
        wait: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        client = LargeRequests(lambda body: b"" if body[0] != 1 else wait)
        for number in (1, 2, 3):
            client.send(number)
        deliver(client.connection, request(4, key=PRODUCE, body=bytes(SIZE - 6))[:100_000])
        client.connection.connection_lost(None)
        assert client.free == 3
        await turns()
        assert client.free == 4

    run(story())
