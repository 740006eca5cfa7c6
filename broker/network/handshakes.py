"""Shaking hands: from an accepted socket to TLS, within a time and a number.

Rule 1. Anybody may knock, so what is held for those who have not shown that they can speak TLS is bounded: none takes
longer than `tallystick.tls.handshake.timeout.ms`, and of all listeners together no more than
`tallystick.tls.handshakes.max` are under way. Beyond that the oldest goes: an honest client needs a few journeys, and
is not kept out by those that stand still.
Rule 2. A client that cannot be let in gets one line in the log, however often it comes back (`log_writer`), and TLS's
own word for the reason: with TLS 1.3 it has sent its first request by then, and a close with that unread would be a
reset that takes the word away. So it is left to close, for a moment.
Rule 3. Limits of connections hold from the moment of accepting: the connection is there before its handshake.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, cast

from broker.network.connection import Connection
from broker.network.tls_transport import TlsTransport
from broker.process.logging import EventLog
from broker.security.tls.errors import NoRuleMatches

if TYPE_CHECKING:
    from broker.security.tls.contexts import LoadedTls

HANDSHAKE_RECORD = 0x16
LEAVING_TICKS = 1
"""How long a client that was told why it is not let in may take to close."""

_log = EventLog("tls")


class Handshakes:
    """Those under way. Time is counted in ticks of the server's sweep."""

    def __init__(self, most: int, longest_ticks: int) -> None:
        self._most = most
        self._longest_ticks = longest_ticks
        self._begun: dict[Handshake, int] = {}
        self._leaving: dict[Handshake, int] = {}
        """The oldest first, of both."""

    def __len__(self) -> int:
        return len(self._begun) + len(self._leaving)

    def begin(self, one: "Handshake", tick: int) -> None:
        self._begun[one] = tick
        if len(self) > self._most:
            next(iter(self._leaving or self._begun)).give_up("too many handshakes are under way")

    def leave(self, one: "Handshake", tick: int) -> None:
        """It has failed, and its client is to close."""
        self.end(one)
        self._leaving[one] = tick

    def end(self, one: "Handshake") -> None:
        self._begun.pop(one, None)
        self._leaving.pop(one, None)

    def sweep(self, tick: int) -> Iterator[None]:
        """Give up those that take too long; yields behind each."""
        for group, longest in ((self._leaving, LEAVING_TICKS), (self._begun, self._longest_ticks)):
            for one, began in list(group.items()):
                if tick - began <= longest:
                    break
                if one in group:
                    one.give_up("the handshake takes longer than tallystick.tls.handshake.timeout.ms")
                yield


class TlsHost(Protocol):
    """What a handshake needs of its server."""

    handshakes: Handshakes
    encrypted_buffer: memoryview
    """What comes off any socket is in here until the call that says so returns."""
    tick: int


class Handshake(asyncio.BufferedProtocol):
    """The protocol of a socket whose client is to speak TLS, to the end of its connection."""

    __slots__ = (
        "_connection", "_host", "_incoming", "_leaving", "_loaded", "_object", "_outgoing", "_received",
        "_socket_side", "_tls",
    )  # fmt: skip

    def __init__(self, host: TlsHost, loaded: "LoadedTls", connection: Connection) -> None:
        self._host = host
        self._loaded = loaded
        self._connection = connection
        self._leaving = False
        self._object: ssl.SSLObject | None = None
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._socket_side: asyncio.Transport
        self._tls: TlsTransport
        self._received: Callable[[memoryview], None] = self._begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket_side = cast(asyncio.Transport, transport)
        self._tls = TlsTransport(self._socket_side, self._connection, self._loaded.context)
        self._connection.connection_made(self._tls)
        if not self._socket_side.is_closing():
            self._host.handshakes.begin(self, self._host.tick)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._host.encrypted_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received(self._host.encrypted_buffer[:nbytes])

    def pause_writing(self) -> None:
        self._tls.socket_full()

    def resume_writing(self) -> None:
        self._tls.socket_free()

    def eof_received(self) -> bool:
        """See `Connection.eof_received`."""
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.handshakes.end(self)
        self._received = _ignore
        self._connection.connection_lost(exc)

    # ------------------------------------------------------------------ shaking hands

    def _begin(self, data: memoryview) -> None:
        """The first bytes. Only now is there anything for OpenSSL to hold."""
        if data[0] != HANDSHAKE_RECORD:
            self.give_up("what it sent is not TLS; does it want to speak to a listener without?")
            return
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = self._loaded.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._received = self._shake
        self._shake(data)

    def _shake(self, data: memoryview) -> None:
        assert self._object is not None
        self._incoming.write(data)
        try:
            self._object.do_handshake()
            self._connection.info.principal = self._principal()
        except ssl.SSLWantReadError:
            self._say()
        except ssl.SSLError as error:
            self._refuse(_reason(error))
        except NoRuleMatches as problem:
            self.give_up(str(problem))
        else:
            self._say()
            self._host.handshakes.end(self)
            self._received = self._tls.received
            self._tls.opened(self._object, self._incoming, self._outgoing)

    def _principal(self) -> str:
        assert self._object is not None
        encoded = self._object.getpeercert(binary_form=True)
        if encoded is None or not self._loaded.settings.names_from_certificates:
            return self._connection.info.principal
        return self._loaded.principal_of(encoded)

    def _say(self) -> None:
        if self._outgoing.pending and not self._socket_side.is_closing():
            self._socket_side.write(self._outgoing.read())

    def _refuse(self, reason: str) -> None:
        """Tell the client why, as TLS does, and let it close."""
        told = self._outgoing.pending > 0
        self._say()
        if not told or self._socket_side.is_closing():
            self.give_up(reason)
            return
        self._log(reason)
        self._leaving = True
        self._received = _ignore
        self._host.handshakes.leave(self, self._host.tick)
        self._socket_side.write_eof()

    def give_up(self, reason: str) -> None:
        """Close it, and say why."""
        self._host.handshakes.end(self)
        self._received = _ignore
        if not self._leaving:
            self._log(reason)
        self._connection.close()

    def _log(self, reason: str) -> None:
        _log.warning("handshake failed", **self._connection.info.told, reason=reason)


def _ignore(data: memoryview) -> None:
    """Whoever was given up says nothing that counts."""


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if error.reason is None:
        return "the client went away"
    return error.reason.lower().replace("_", " ")
