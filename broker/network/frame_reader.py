"""Cuts the bytes of one connection into frames (requests without their length).

Small frames are copied out of a receive buffer that all connections share: the transport asks for a buffer, fills it
and says so in one breath. A frame that is not whole gets a buffer of its own and is received straight into it; such a
frame is a view of its buffer, and a caller that takes it from `frames` takes its lease with `lease_of`.
"""

from collections import deque
from struct import Struct
from typing import Final

from broker.network.frame_buffers import FrameBuffers, FrameLease
from protocol.errors import ProtocolError
from protocol.schema import Buffer

FIRST_PIECE_BYTES = 64 << 10
"""What a frame gets at first, however long it claims to be; doubled as it fills. A client that has sent large requests
before gets as much at once as the largest of them had."""

TLS_RECORD = 0x1603
"""What a TLS handshake begins with."""

_LENGTH: Final = Struct(">i")


class FrameReader:
    """The receiving half of a connection. `frames` are the whole ones, in order."""

    __slots__ = (
        "_buffers",
        "_frame",
        "_frame_length",
        "_largest",
        "_lease",
        "_leases",
        "_length_start",
        "_limit",
        "_shared",
        "frames",
        "partial_bytes",
    )

    def __init__(self, shared: bytearray, buffers: FrameBuffers, limit: int) -> None:
        self.frames: deque[Buffer] = deque()
        self.partial_bytes = 0
        """How much of a frame that is not whole has come."""
        self._shared = memoryview(shared)
        self._buffers = buffers
        self._limit = limit
        self._length_start = b""
        self._frame: bytearray | None = None
        self._lease: FrameLease | None = None
        self._leases: deque[FrameLease | None] = deque()
        """Of those of `frames` that are views, in their order; None for a buffer that is not used again."""
        self._frame_length = 0
        self._largest = 0

    @property
    def begun(self) -> bool:
        """Whether the client owes us the rest of a frame."""
        return self._frame is not None

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        frame = self._frame
        if frame is None:
            return self._shared
        if self.partial_bytes == len(frame):  # here nobody else looks at the buffer, so that it may be moved
            frame.extend(bytes(min(self._frame_length - len(frame), len(frame))))
        return memoryview(frame)[self.partial_bytes : self._frame_length]

    def received(self, size: int) -> int:
        """`size` bytes were put into `buffer()`; returns how many bytes of whole frames that made.

        Raises `ProtocolError` for an impossible length.
        """
        if self._frame is None:
            if self._length_start:
                return self._cut(memoryview(self._length_start + bytes(self._shared[:size])))
            if size > 4:
                (length,) = _LENGTH.unpack_from(self._shared)
                if length == size - 4 and length <= self._limit:  # one whole frame, as from all who wait for answers
                    self.frames.append(bytes(self._shared[4:size]))
                    return size - 4
            return self._cut(self._shared[:size])
        self.partial_bytes += size
        if self.partial_bytes < self._frame_length:
            return 0
        self.frames.append(memoryview(self._frame)[: self._frame_length])
        self._leases.append(self._lease)
        self._frame, self._lease, self.partial_bytes = None, None, 0
        self._largest = max(self._largest, self._frame_length)
        return self._frame_length

    def admit(self, limit: int) -> None:
        """Frames may be as long as this from now on."""
        self._limit = limit

    def drop(self) -> None:
        """Nobody wants these frames any more."""
        self.frames.clear()
        self._frame, self.partial_bytes = None, 0
        leases, self._leases = [*self._leases, self._lease], deque()
        self._lease = None
        for lease in leases:
            if lease is not None:
                lease.give_back()

    def lease_of(self, frame: Buffer) -> FrameLease | None:
        """The lease of the frame that was taken from `frames` just now."""
        return self._leases.popleft() if type(frame) is memoryview else None

    def _cut(self, received: memoryview) -> int:
        position, size, whole = 0, len(received), 0
        while size - position >= 4:
            (length,) = _LENGTH.unpack_from(received, position)
            if not 0 < length <= self._limit:
                raise ProtocolError(_impossible(length, self._limit))
            end = position + 4 + length
            if end > size:
                self._begin(length, received[position + 4 :])
                position = size
                break
            self.frames.append(bytes(received[position + 4 : end]))
            whole += length
            position = end
        self._length_start = bytes(received[position:])
        return whole

    def _begin(self, length: int, received: memoryview) -> None:
        self._frame_length = length
        self.partial_bytes = len(received)
        self._lease = self._lease_for(length)
        self._frame = self._own_buffer(length) if self._lease is None else self._lease.buffer
        self._frame[: self.partial_bytes] = received

    def _lease_for(self, length: int) -> FrameLease | None:
        """A buffer that was used before, where there is one; one that will be, for a client that has earned it."""
        if length <= FIRST_PIECE_BYTES:
            return None
        lease = self._buffers.take(length)
        return self._buffers.make(length) if lease is None and length <= self._largest else lease

    def _own_buffer(self, length: int) -> bytearray:
        """As much as this client has earned; the rest follows as it comes."""
        return bytearray(min(length, max(FIRST_PIECE_BYTES, 2 * self.partial_bytes, self._largest)))


def _impossible(length: int, limit: int) -> str:
    if length >> 16 == TLS_RECORD:
        return "what it sent is TLS, and this listener speaks without"
    return f"a request of {length} bytes; now no more than {limit} are taken"
