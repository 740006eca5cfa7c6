"""Buffers for large requests: used again, but never while somebody still looks at one."""

import pytest

from broker.network.frame_buffers import LARGEST_BYTES, FrameBuffers, FrameLease


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
