"""Buffers for large requests, used again and again: fresh memory costs a page fault for every 4 KB, as much as all
else together.

Rule 1. A buffer is taken with a lease, and the pool keeps only buffers that are free: one whose lease is never given
back is garbage when nobody refers to it any more, and is not used again.
Rule 2. `give_back` says that the request is finished with. Whether a view of the buffer is left (records that a handler
still holds) is not a matter of trust: a buffer with a view refuses to change its size, on every Python. Such a buffer
is looked at again when the next one is wanted: uvloop has a view of its own until the request that it has just received
returns to it.
"""

from collections import deque

POOLED_BYTES = 16 << 20
ROUND_BYTES = 64 << 10
LARGEST_BYTES = 4 << 20


class FrameLease:
    """The right to use one buffer, until it is given back."""

    __slots__ = ("_pool", "buffer")

    def __init__(self, pool: "FrameBuffers", buffer: bytearray) -> None:
        self._pool = pool
        self.buffer = buffer

    def give_back(self) -> None:
        """To be called once, by the last user of the buffer, when its views are gone."""
        buffer, self.buffer = self.buffer, bytearray()
        self._pool.put(buffer)


class FrameBuffers:
    """See the head of this file."""

    def __init__(self, limit_bytes: int = POOLED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._free: list[bytearray] = []
        self.free_bytes = 0
        """How much memory lies here unused."""
        self._viewed: deque[bytearray] = deque()
        self._viewed_bytes = 0

    def take(self, length: int) -> FrameLease | None:
        """A free buffer of at least this size, or None."""
        if self._viewed:
            self._look_again()
        for index, buffer in enumerate(self._free):
            if len(buffer) >= length:
                del self._free[index]
                self.free_bytes -= len(buffer)
                return FrameLease(self, buffer)
        return None

    def make(self, length: int) -> FrameLease | None:
        """A new buffer that may be used again; None where it is too large for that."""
        size = -(-length // ROUND_BYTES) * ROUND_BYTES
        return FrameLease(self, bytearray(size)) if size <= LARGEST_BYTES else None

    def put(self, buffer: bytearray) -> None:
        """`FrameLease.give_back`: keep the buffer, where there is room for it. Of those that have views the oldest are
        left to them before a free one is given up."""
        if _has_views(buffer):
            self._viewed.append(buffer)
            self._viewed_bytes += len(buffer)
        else:
            self._free.append(buffer)
            self.free_bytes += len(buffer)
        while self._viewed and self.free_bytes + self._viewed_bytes > self._limit_bytes:
            self._viewed_bytes -= len(self._viewed.popleft())
        if self.free_bytes > self._limit_bytes:
            self.free_bytes -= len(self._free.pop())

    def _look_again(self) -> None:
        """At those that somebody looked at when they were given back."""
        viewed, self._viewed, self._viewed_bytes = self._viewed, deque(), 0
        for buffer in viewed:
            self.put(buffer)


def _has_views(buffer: bytearray) -> bool:
    """Shorten it by a byte and make it whole again, which moves no memory."""
    try:
        buffer.pop()
    except BufferError:
        return True
    buffer.append(0)
    return False
