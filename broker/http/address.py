"""Where the HTTP side listens, and what guards it.

Rule. It listens on this machine alone unless something guards it: a token that each request carries, or a network that
the operator says is trusted. Control needs the token wherever others reach it.
"""

from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.config.listeners import BadListener, Endpoint, parse_address
from broker.config.sources import read_token

LISTENER = "HTTP"
ADDRESS, TOKEN_FILE = "tallystick.http", "tallystick.http.token.file"
TRUSTED_NETWORK, CONTROL = "tallystick.http.trusted.network", "tallystick.http.control"


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Settings that were looked at."""

    endpoint: Endpoint
    token: str | None
    is_local: bool
    """Whether nobody but this machine reaches it."""


def http_address(config: BrokerConfig) -> HttpAddress:
    """What the settings of a broker that has an HTTP side ask for. Raises `ConfigError`."""
    try:
        endpoint = parse_address(config.get_str(ADDRESS), LISTENER)
    except BadListener as error:
        raise ConfigError(f"{ADDRESS}: {error}") from error
    path = config.get_str(TOKEN_FILE)
    token = read_token(path, where=TOKEN_FILE) if path else None
    is_local = endpoint.is_loopback
    if not is_local and token is None and not config.get_bool(TRUSTED_NETWORK):
        raise ConfigError(
            f"{ADDRESS}: {endpoint} is reached from other machines, and nothing guards it. Name a file with a token "
            f"({TOKEN_FILE}, --http-token-file), or say that the network is trusted ({TRUSTED_NETWORK}=true, "
            "--http-trusted-network)."
        )
    if not is_local and token is None and config.get_bool(CONTROL):
        raise ConfigError(f"{CONTROL}: where other machines reach it, control needs a token ({TOKEN_FILE}).")
    return HttpAddress(endpoint, token, is_local)
