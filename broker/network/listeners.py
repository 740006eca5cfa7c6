"""Taking the ports of listeners: sockets that listen on every address of a host."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass

from broker.config.listeners import BadListener, Endpoint


def bind(endpoint: Endpoint, backlog: int) -> list[socket.socket]:
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
            made = _listen(family, kind, protocol, (address[0], port, *address[2:]), backlog)
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


def bind_all(listeners: Iterable[Endpoint], backlog: int) -> list[Bound]:
    """Take the ports of all listeners. Raises `BadListener`."""
    bound = []
    for listener in listeners:
        sockets = bind(listener, backlog)
        port = sockets[0].getsockname()[1]
        bound.append(Bound(Endpoint(listener.listener, listener.host, port), sockets))
    return bound


def _listen(
    family: socket.AddressFamily, kind: socket.SocketKind, protocol: int, address: tuple[object, ...], backlog: int
) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(backlog)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
