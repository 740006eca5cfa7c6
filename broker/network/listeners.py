"""Taking the ports of listeners: sockets that listen on every address of a host.

What is set of a listening socket, its connections have from the start.
"""

import contextlib
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import BadListener, Endpoint, is_loopback

SYSTEMS_OWN = -1
ROW_ATTEMPTS = 100
"""How often neighbouring free ports are looked for."""
LOOPBACK_CONGESTION = b"reno"
"""Nothing is lost on the way to a client on this machine. BBR, which many systems have as default, paces all the same:
it sends at the rate that it measured, by timers, and takes half again of the processor (docs/decisions/0038)."""


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """What connections are made with. Bytes; -1 leaves what the system does."""

    backlog: int
    send_buffer_bytes: int = SYSTEMS_OWN
    receive_buffer_bytes: int = SYSTEMS_OWN

    @classmethod
    def of(cls, config: BrokerConfig, backlog: int) -> "SocketSettings":
        return cls(backlog, config.get_int("socket.send.buffer.bytes"), config.get_int("socket.receive.buffer.bytes"))


def bind(endpoint: Endpoint, settings: SocketSettings) -> list[socket.socket]:
    """Listening sockets for every address of the host, all on one port. Raises `BadListener`."""
    sockets: list[socket.socket] = []
    port = endpoint.port
    try:
        found = socket.getaddrinfo(
            endpoint.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if sockets and family not in (socket.AF_INET, socket.AF_INET6):
                continue
            made = _listen(family, kind, protocol, (address[0], port, *address[2:]), settings)
            sockets.append(made)
            port = made.getsockname()[1]
    except OSError as error:
        for made in sockets:
            made.close()
        raise BadListener(f"cannot listen on {endpoint}: {error.strerror or error}") from error
    return sockets


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener whose port is taken: where it is, and the sockets that listen."""

    endpoint: Endpoint
    sockets: list[socket.socket]

    def close(self) -> None:
        """Let go of it; nobody serves there yet."""
        for one in self.sockets:
            one.close()


def bind_all(listeners: Iterable[Endpoint], settings: SocketSettings) -> list[Bound]:
    """Take the ports of all listeners. Raises `BadListener`."""
    bound = []
    for listener in listeners:
        sockets = bind(listener, settings)
        port = sockets[0].getsockname()[1]
        bound.append(Bound(Endpoint(listener.listener, listener.host, port), sockets))
    return bound


def bind_in_a_row(listeners: Iterable[Endpoint], settings: SocketSettings, count: int) -> list[list[Bound]]:
    """Take the ports of the listeners of so many nodes: each has those behind the one before. Raises `BadListener`."""
    rows = [_row(listener, settings, count) for listener in listeners]
    return [list(of_one) for of_one in zip(*rows, strict=True)]


def _row(listener: Endpoint, settings: SocketSettings, count: int) -> list[Bound]:
    for attempt in range(1, ROW_ATTEMPTS + 1):
        row: list[Bound] = []
        try:
            for _ in range(count):
                port = row[-1].endpoint.port + 1 if row else listener.port
                row += bind_all([replace(listener, port=port)], settings)
        except (BadListener, OverflowError) as problem:
            for bound in row:
                bound.close()
            if listener.port or attempt == ROW_ATTEMPTS:
                raise BadListener(str(problem)) from problem
        else:
            break
    return row


def _listen(
    family: socket.AddressFamily,
    kind: socket.SocketKind,
    protocol: int,
    address: tuple[object, ...],
    settings: SocketSettings,
) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if settings.send_buffer_bytes != SYSTEMS_OWN:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes != SYSTEMS_OWN:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        if is_loopback(str(address[0])) and hasattr(socket, "TCP_CONGESTION"):
            with contextlib.suppress(OSError):  # a system that does not have it, or lets nobody choose
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, LOOPBACK_CONGESTION)
        made.bind(address)
        made.listen(settings.backlog)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
