"""Listeners: where the broker listens and what it tells clients to connect to (KIP-103's names)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.config_sources import ConfigError

ENDPOINT = re.compile(
    r"^(?P<name>[A-Za-z0-9_-]+)://(?:\[(?P<six>[0-9A-Fa-f:.%a-z]*)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)$"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener: its name, a host (empty: every address), a port (0: any free one)."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def read_endpoints(key: str, texts: Iterable[str]) -> tuple[Endpoint, ...]:
    """Read a list of endpoints. Raises `ConfigError`."""
    endpoints: list[Endpoint] = []
    for text in texts:
        found = ENDPOINT.match(text)
        if found is None or int(found["port"]) > 65535:
            raise ConfigError(f"{key}: {text!r} is not of the form NAME://host:port.")
        endpoints.append(Endpoint(found["name"].upper(), found["six"] or found["host"] or "", int(found["port"])))
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key}: the listener name {name} is used twice.")
    return tuple(endpoints)


def read_protocol_map(key: str, text: str) -> dict[str, str]:
    """Read `NAME:PROTOCOL,…`. Raises `ConfigError`."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon or not name.strip():
            raise ConfigError(f"{key}: {pair!r} is not of the form NAME:PROTOCOL.")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def check_protocols(endpoints: Iterable[Endpoint], protocols: Mapping[str, str]) -> None:
    """Refuse listeners that speak what this broker does not. Raises `ConfigError`."""
    for endpoint in endpoints:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise ConfigError(f"listener.security.protocol.map says nothing of the listener {endpoint.name}.")
        if protocol != "PLAINTEXT":
            raise ConfigError(
                f"listeners: {endpoint} would have to speak {protocol}; only PLAINTEXT is supported so far."
            )


def advertised_for(listeners: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """The advertised endpoints, checked against the listeners. Raises `ConfigError`."""
    known = {endpoint.name for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.name not in known:
            raise ConfigError(f"advertised.listeners: there is no listener called {endpoint.name}.")
        if endpoint.host in ("", "0.0.0.0", "::"):  # noqa: S104
            raise ConfigError(f"advertised.listeners: {endpoint} is no address a client can connect to.")
    return advertised
