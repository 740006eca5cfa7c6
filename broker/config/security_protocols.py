"""Which security protocol each listener speaks (`listener.security.protocol.map`)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from broker.config.listeners import ANY_HOSTS, BadListener, Endpoint, parse_listeners
from broker.config.sources import ConfigError

MAP_KEY = "listener.security.protocol.map"


class SecurityProtocol(StrEnum):
    """Whether a listener encrypts, and whether its clients say who they are."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def number(self) -> int:
        """As in Kafka's records."""
        return list(SecurityProtocol).index(self)

    @property
    def encrypts(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


def read_endpoints(key: str, texts: Iterable[str]) -> tuple[Endpoint, ...]:
    """Read a list of endpoints, naming the key in what is wrong with it. Raises `ConfigError`."""
    try:
        return tuple(parse_listeners(",".join(texts)))
    except BadListener as problem:
        raise ConfigError(f"{key}: {problem}.") from None


def read_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Read `NAME:PROTOCOL,…`. Raises `ConfigError`."""
    protocols: dict[str, SecurityProtocol] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.partition(":"))
        if not colon or not name:
            raise ConfigError(f"{MAP_KEY}: {pair!r} is not of the form NAME:PROTOCOL.")
        try:
            protocols[name.upper()] = SecurityProtocol(protocol.upper())
        except ValueError:
            raise ConfigError(f"{MAP_KEY}: there is no security protocol {protocol!r}.") from None
    return protocols


def check_protocols(endpoints: Iterable[Endpoint], protocols: Mapping[str, SecurityProtocol]) -> None:
    """Refuse listeners of which nobody knows what they speak. Raises `ConfigError`."""
    for endpoint in endpoints:
        if endpoint.listener not in protocols:
            raise ConfigError(f"{MAP_KEY} says nothing of the listener {endpoint.listener}.")


def check_advertised(listeners: Iterable[Endpoint], advertised: Iterable[Endpoint]) -> None:
    """Refuse advertised addresses that belong to no listener or that nobody can connect to. Raises `ConfigError`."""
    known = {endpoint.listener for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.listener not in known:
            raise ConfigError(f"advertised.listeners: there is no listener called {endpoint.listener}.")
        if endpoint.host in ANY_HOSTS:
            raise ConfigError(f"advertised.listeners: {endpoint} is no address a client can connect to.")
