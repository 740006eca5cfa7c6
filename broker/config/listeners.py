"""Listeners: where the broker listens, and which addresses it advertises to clients.

Written as Kafka writes them: `PLAINTEXT://127.0.0.1:9092,INTERNAL://0.0.0.0:9093`.
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

ANY_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104  names for "every address", not a binding


class BadListener(Exception):
    """A listener that cannot be understood or bound; the message is for the operator."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address by the name of its listener."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine reaches it. Names are not looked up: what they lead to may change."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """The same of a host by itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def parse_address(text: str, listener: str) -> Endpoint:
    """`HOST:PORT`, `:PORT` or `PORT`; without a host it is 127.0.0.1. Raises `BadListener`."""
    host, _, port = text.strip().rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise BadListener(f"{text!r} is no address; it should look like 127.0.0.1:9644.")
    return Endpoint(listener, host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


def parse_listeners(text: str) -> list[Endpoint]:
    """`NAME://host:port,…` in order; names are upper-cased, as Kafka does. Raises `BadListener`."""
    endpoints: list[Endpoint] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = part.partition("://")
        host, colon, port = address.rpartition(":")
        if not name or not separator or not colon or not port.isdecimal() or int(port) > 65535:
            raise BadListener(f"{part!r} is not a listener; it should look like PLAINTEXT://127.0.0.1:9092")
        endpoints.append(Endpoint(name.upper(), host.removeprefix("[").removesuffix("]"), int(port)))
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise BadListener(f"each listener needs a name of its own: {text}")
    return endpoints


def advertised(bound: Iterable[Endpoint], configured: Iterable[Endpoint]) -> dict[str, Endpoint]:
    """Listener name → advertised address: as configured, else where we listen. Port 0 means the bound port."""
    by_name = {endpoint.listener: endpoint for endpoint in configured}
    addresses: dict[str, Endpoint] = {}
    for endpoint in bound:
        wanted = by_name.get(endpoint.listener, endpoint)
        host = socket.gethostname() if wanted.host in ANY_HOSTS else wanted.host
        addresses[endpoint.listener] = Endpoint(endpoint.listener, host, wanted.port or endpoint.port)
    return addresses


def reachable(bound: Endpoint) -> Endpoint:
    """Where a client on this machine reaches a listener, whatever is advertised (the ready file)."""
    if bound.host not in ANY_HOSTS:
        return bound
    return Endpoint(bound.listener, "::1" if bound.host == "::" else "127.0.0.1", bound.port)
