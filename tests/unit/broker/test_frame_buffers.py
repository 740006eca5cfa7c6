"""Buffers for large requests: used again, but never while somebody still looks at one."""

from broker.network.frame_buffers import LARGEST_BYTES, FrameBuffers


def test_a_buffer_is_free_when_the_last_view_of_it_is_gone() -> None:
    buffers = FrameBuffers()
    buffer = buffers.grow(100_000)
    assert buffer is not None
    identity, view = id(buffer), memoryview(buffer)[10:20]
    del buffer
    assert buffers.take(100_000) is None
    del view
    again = buffers.take(100_000)
    assert id(again) == identity
    assert buffers.take(100_000) is None


def test_a_buffer_that_is_too_small_is_not_given() -> None:
    buffers = FrameBuffers()
    buffers.grow(100_000)
    assert buffers.take(1_000_000) is None


def test_the_pool_has_a_limit_and_takes_no_giants() -> None:
    buffers = FrameBuffers(1 << 20)
    assert buffers.grow(LARGEST_BYTES + 1) is None
    assert buffers.grow(1 << 20) is not None
    assert buffers.grow(1) is None
    assert buffers.size_bytes == 1 << 20
