"""Buffers for large requests: used again, but never while somebody still looks at one."""

import asyncio
from typing import cast

import pytest
import uvloop

from broker.network.frame_buffers import LARGEST_BYTES, ROUND_BYTES, FrameBuffers, FrameLease
from broker.network.frame_reader import FrameReader


def make(buffers: FrameBuffers, length: int) -> FrameLease:
    lease = buffers.make(length)
    assert lease is not None
    return lease


def test_a_buffer_is_used_again_once_given_back() -> None:
    buffers = FrameBuffers()
    lease = make(buffers, 100_000)
    buffer = lease.buffer
    assert buffers.take(100_000) is None
    lease.give_back()
    again = buffers.take(100_000)
    assert again is not None
    assert again.buffer is buffer
    assert buffers.take(100_000) is None


@pytest.mark.parametrize("nested", [False, True])
def test_a_buffer_with_a_view_is_left_to_it(nested: bool) -> None:
    buffers = FrameBuffers()
    lease = make(buffers, 100_000)
    frame = memoryview(lease.buffer)
    view = memoryview(frame[10:20])[2:4] if nested else frame[10:20]
    frame.release()
    lease.give_back()
    assert buffers.take(100_000) is None
    assert buffers.free_bytes == 0
    view[:] = bytes(len(view))


def test_a_buffer_whose_last_view_goes_later_is_used_again() -> None:
    buffers = FrameBuffers()
    lease = make(buffers, 100_000)
    buffer, view = lease.buffer, memoryview(lease.buffer)
    lease.give_back()
    assert buffers.take(100_000) is None
    view.release()
    again = buffers.take(100_000)
    assert again is not None
    assert again.buffer is buffer
    assert buffers.take(1) is None


def test_of_buffers_that_are_looked_at_the_oldest_are_given_up() -> None:
    buffers = FrameBuffers(2 * ROUND_BYTES)
    leases = [make(buffers, ROUND_BYTES) for _ in range(3)]
    held = [lease.buffer for lease in leases]
    views = [memoryview(buffer) for buffer in held]
    for lease in leases:
        lease.give_back()
    for view in views:
        view.release()
    again = [buffers.take(1) for _ in range(3)]
    places = {id(buffer): place for place, buffer in enumerate(held)}
    assert [None if lease is None else places[id(lease.buffer)] for lease in again] == [1, 2, None]


def test_free_buffers_and_those_with_views_have_one_limit() -> None:
    buffers = FrameBuffers(2 * ROUND_BYTES)
    leases = [make(buffers, ROUND_BYTES) for _ in range(4)]
    view = memoryview(leases[0].buffer)
    for lease in leases[:3]:
        lease.give_back()
    view.release()
    assert (buffers.free_bytes, buffers._viewed_bytes) == (2 * ROUND_BYTES, 0)
    assert [buffers.take(1) is None for _ in range(3)] == [False, False, True]
    with memoryview(leases[3].buffer):
        leases[3].give_back()
        assert (buffers.free_bytes, buffers._viewed_bytes) == (0, ROUND_BYTES)
    assert buffers.take(1) is not None
    assert (buffers.free_bytes, buffers._viewed_bytes) == (0, 0)


def test_under_uvloop_requests_that_are_done_at_once_share_a_buffer() -> None:
    """It looks at the buffer until `buffer_updated` has returned."""
    count, length = 12, 200_000
    used: list[bytearray] = []

    class Receiving(asyncio.BufferedProtocol):
        def __init__(self, done: asyncio.Future[None]) -> None:
            self.reader = FrameReader(bytearray(64 << 10), FrameBuffers(), 1 << 20)
            self.done = done
            self.frames = 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.WriteTransport, transport)

        def get_buffer(self, sizehint: int) -> memoryview:
            return self.reader.buffer()

        def buffer_updated(self, nbytes: int) -> None:
            self.reader.received(nbytes)
            while self.reader.frames:
                frame = self.reader.frames.popleft()
                if (lease := self.reader.lease_of(frame)) is not None:
                    used.append(lease.buffer)
                    cast(memoryview, frame).release()
                    lease.give_back()
                self.frames += 1
                self.transport.write(b"!")
            if self.frames == count:
                self.done.set_result(None)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        async with await loop.create_server(lambda: Receiving(done), "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for _ in range(count):
                writer.write(length.to_bytes(4, "big") + bytes(length))
                await reader.readexactly(1)
            await done
            writer.close()

    uvloop.run(story())
    assert len(used) >= count - 1  # the first large request of a client has a buffer that is not used again
    assert len({id(buffer) for buffer in used}) == 1


def test_a_buffer_never_given_back_is_never_used_again() -> None:
    buffers = FrameBuffers()
    make(buffers, 100_000)
    assert buffers.take(1) is None


def test_a_buffer_given_back_has_its_whole_size() -> None:
    buffers = FrameBuffers()
    lease = make(buffers, 100_000)
    size = len(lease.buffer)
    lease.give_back()
    again = buffers.take(size)
    assert again is not None
    assert len(again.buffer) == size


def test_a_lease_is_given_back_once() -> None:
    lease = make(FrameBuffers(), 100_000)
    lease.give_back()
    with pytest.raises(IndexError):
        lease.give_back()


def test_a_buffer_that_is_too_small_is_not_taken() -> None:
    buffers = FrameBuffers()
    make(buffers, 100_000).give_back()
    assert buffers.take(1_000_000) is None


def test_the_pool_has_a_limit_and_takes_no_giants() -> None:
    buffers = FrameBuffers(1 << 20)
    assert buffers.make(LARGEST_BYTES + 1) is None
    first, second = make(buffers, 1 << 20), make(buffers, 1)
    first.give_back()
    second.give_back()
    assert buffers.free_bytes == 1 << 20
