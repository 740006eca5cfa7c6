"""TLS between a socket's transport and a connection, which takes it for an ordinary transport.

Rule 1. A connection holds no buffer while it is idle: what comes goes through OpenSSL in pieces, for its buffers keep
the size of the largest.
Rule 2. What a client does not take stays open text here, and counts (`get_write_buffer_size`); only as much of it is
encrypted as the socket takes. The loop's own TLS encrypts an answer whole and loses sight of it.
Rule 3. A turn encrypts so much and no more; the rest follows in the next.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from broker.process.logging import EventLog
from protocol.schema import Buffer

PIECE_BYTES = 32 << 10
"""Two records of TLS."""
PIECES_AT_ONCE = 4
BYTES_A_TURN = 1 << 20
SOCKET_HIGH_BYTES = 64 << 10
UNASKED_BYTES = 64 << 10
"""What a client may have us answer below its requests (new keys of TLS 1.3) before it is sent away."""

_log = EventLog("tls")


class Application(Protocol):
    """The connection, as far as its transport calls it."""

    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class TlsTransport(asyncio.Transport):
    """The side of the connection. `opened` is called once, by whoever has shaken hands."""

    __slots__ = (
        "_application", "_backlog", "_backlog_bytes", "_closing", "_context", "_going_on", "_high", "_incoming",
        "_loop", "_low", "_object", "_outgoing", "_over", "_paused", "_reading", "_socket_full", "_socket_side",
        "_unasked",
    )  # fmt: skip

    def __init__(self, socket_side: asyncio.Transport, application: Application, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context
        self._socket_side = socket_side
        self._application = application
        self._loop = asyncio.get_running_loop()
        self._object: ssl.SSLObject | None = None
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._backlog: deque[Buffer] = deque()
        self._backlog_bytes = self._unasked = 0
        self._high, self._low = SOCKET_HIGH_BYTES, SOCKET_HIGH_BYTES // 4
        self._reading = True
        self._closing = self._over = self._going_on = self._paused = self._socket_full = False

    def opened(self, opened: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        """Hands are shaken: what was written before now may go."""
        self._object, self._incoming, self._outgoing = opened, incoming, outgoing
        self._pump()
        self.read_on()

    # ------------------------------------------------------------------ what comes

    def received(self, data: memoryview) -> None:
        """Bytes off the socket. They are taken out of `data` before this returns."""
        if self._closing or self._over:
            return  # whatever it still says, nobody listens
        for begin in range(0, len(data), PIECE_BYTES):
            self._incoming.write(data[begin : begin + PIECE_BYTES])
            self.read_on()

    def read_on(self) -> None:
        """Hand on what can be decrypted, as long as the connection takes it."""
        more = True
        while more and self._reading and not (self._closing or self._over):
            size, more = self._decrypt(self._application.get_buffer(-1))
            if size:
                self._application.buffer_updated(size)
            if self._outgoing.pending:
                self._answer_below()

    def _decrypt(self, buffer: memoryview) -> tuple[int, bool]:
        """How much was put into the buffer, and whether there is more."""
        assert self._object is not None
        read: Callable[[int, memoryview], int] = self._object.read  # type: ignore[assignment]
        room, size = len(buffer), 0
        try:
            while size < room:
                got = read(room - size, buffer[size:])
                if not got:
                    break
                size += got
                if not (self._incoming.pending or self._object.pending()):  # cheaper than to be told so
                    return size, False
            else:
                return size, True
        except ssl.SSLWantReadError:
            return size, False
        except ssl.SSLError as error:
            _log.debug("not TLS any more", reason=error)
        self._over = True  # the client says that this was all, or it might as well
        self._loop.call_soon(self._ended)
        return size, False

    def _ended(self) -> None:
        if not (self._closing or self._application.eof_received()):
            self.close()

    def _answer_below(self) -> None:
        """What OpenSSL says by itself. Who makes it talk, and takes nothing, makes us hold it."""
        said = self._outgoing.read()
        self._unasked = self._unasked + len(said) if self._socket_full else 0
        if self._unasked > UNASKED_BYTES:
            self.abort()
        elif not self._socket_side.is_closing():
            self._socket_side.write(said)

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._socket_side.pause_reading()

    def resume_reading(self) -> None:
        """What was decrypted by halves follows in a turn of its own: we are called from within a request."""
        if self._reading:
            return
        self._reading = True
        self._socket_side.resume_reading()
        if self._object is not None:
            self._loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        if not self._socket_side.is_closing():
            self.read_on()

    # ------------------------------------------------------------------ what goes

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._closing:
            return
        for part in list_of_data:
            if size := len(part):
                self._backlog.append(part)
                self._backlog_bytes += size
        self._pump()

    def socket_full(self) -> None:
        """The socket's transport holds enough."""
        self._socket_full = True

    def socket_free(self) -> None:
        self._socket_full = False
        self._pump()

    def _pump(self) -> None:
        """Encrypt what the socket takes now."""
        if self._object is None or self._going_on:
            return
        left = BYTES_A_TURN
        try:
            while self._backlog and not self._socket_full and left > 0:
                left -= self._encrypt(self._object.write)
        except ssl.SSLError:  # it has ended: what came was not TLS any more
            self.abort()
            return
        if self._backlog and not self._socket_full:
            self._going_on = True
            self._loop.call_soon(self._go_on)
        if self._closing and not self._backlog:
            self._say_goodbye()
        else:
            self._look()

    def _encrypt(self, write: Callable[[Buffer], int]) -> int:
        """Some pieces of the backlog; returns how many bytes of it."""
        records: list[bytes] = []
        before = self._backlog_bytes
        for _ in range(PIECES_AT_ONCE):
            piece = self._next_piece()
            size = write(piece)
            records.append(self._outgoing.read())
            if size < len(piece):
                self._backlog.appendleft(memoryview(piece)[size:])
                self._backlog_bytes += len(piece) - size
            if not self._backlog:
                break
        self._socket_side.writelines(records)
        return before - self._backlog_bytes

    def _go_on(self) -> None:
        self._going_on = False
        if not self._socket_side.is_closing():
            self._pump()

    def _next_piece(self) -> Buffer:
        """Small parts go together, large ones by pieces."""
        backlog = self._backlog
        first = backlog.popleft()
        if len(first) > PIECE_BYTES:
            rest = memoryview(first)
            first = rest[:PIECE_BYTES]
            backlog.appendleft(rest[PIECE_BYTES:])
        elif backlog and len(first) + len(backlog[0]) <= PIECE_BYTES:
            together, size = [first], len(first)
            while backlog and size + len(backlog[0]) <= PIECE_BYTES:
                size += len(backlog[0])
                together.append(backlog.popleft())
            first = b"".join(together)
        self._backlog_bytes -= len(first)
        return first

    def _look(self) -> None:
        """Tell the connection that it is to stop writing, or may go on."""
        size = self.get_write_buffer_size()
        if not self._paused and size > self._high:
            self._paused = True
            self._application.pause_writing()
        elif self._paused and size <= self._low:
            self._paused = False
            self._application.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The socket's transport never waits longer than we do: it is what wakes us."""
        self._high = SOCKET_HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low
        self._socket_side.set_write_buffer_limits(high=min(self._high, SOCKET_HIGH_BYTES))

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes + self._socket_side.get_write_buffer_size()

    # ------------------------------------------------------------------ the end

    def is_closing(self) -> bool:
        return self._closing or self._socket_side.is_closing()

    def close(self) -> None:
        """Send what there is, say that it was all, close. Nobody waits for the client to say the same."""
        if self._closing:
            return
        self._closing = True
        if self._object is None:
            self._socket_side.close()
        elif not self._backlog:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        assert self._object is not None
        if self._socket_side.is_closing():
            return
        with suppress(ssl.SSLError):  # it wants to hear from the client
            self._object.unwrap()
        if self._outgoing.pending:
            self._socket_side.write(self._outgoing.read())
        self._socket_side.close()

    def abort(self) -> None:
        self._closing = True
        self._backlog.clear()
        self._backlog_bytes = 0
        self._socket_side.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._context
        return self._socket_side.get_extra_info(name, default)
