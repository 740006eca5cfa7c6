"""Buffers for large requests, used again and again: fresh memory costs a page fault for every 4 KB, as much as all
else together.

Rule. A buffer belongs to the pool for ever; it is free when nobody but the pool refers to it. A view of it (the
records of a Produce) is such a reference, so nobody has to hand a buffer back, and nobody can do so too early.
"""

import sys

POOLED_BYTES = 16 << 20
ROUND_BYTES = 64 << 10
LARGEST_BYTES = 4 << 20
_FREE = 3
"""References to a buffer that is free: the pool's list, the loop that looks, the call that counts."""


class FrameBuffers:
    """See the head of this file."""

    def __init__(self, limit_bytes: int = POOLED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._buffers: list[bytearray] = []
        self.size_bytes = 0

    def take(self, length: int) -> bytearray | None:
        """A free buffer of at least this size, or None."""
        for buffer in self._buffers:
            if len(buffer) >= length and sys.getrefcount(buffer) == _FREE:
                return buffer
        return None

    def grow(self, length: int) -> bytearray | None:
        """A new buffer for the pool, where it has room; None where the caller is to make its own."""
        size = -(-length // ROUND_BYTES) * ROUND_BYTES
        if size > LARGEST_BYTES or self.size_bytes + size > self._limit_bytes:
            return None
        buffer = bytearray(size)
        self._buffers.append(buffer)
        self.size_bytes += size
        return buffer
