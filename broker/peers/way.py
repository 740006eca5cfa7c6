"""How a connection to another node is kept from others, and how this node says on it who it is: as the listener that
nodes use among each other wants it.
"""

import ssl

from broker.config.broker_config import BrokerConfig
from broker.peers.listener import between_nodes
from broker.peers.login import Asks, log_in, login_of
from broker.process.environment import Environment

IDENTIFICATION = "ssl.endpoint.identification.algorithm"


class Way:
    """See the head of this file. Raises `ConfigError`."""

    def __init__(self, config: BrokerConfig, environment: Environment) -> None:
        self._config = config
        self._environment = environment
        self._listener = between_nodes(config)
        self._protocol = config.security_protocol(self._listener)
        if self._protocol.has_sasl:
            login_of(config, self._listener)

    async def context(self) -> ssl.SSLContext | None:
        """What TLS begins with; None where there is none. Read anew each time: connections are few, and stores change
        while a node runs. Raises `BadTls`."""
        if not self._protocol.encrypts:
            return None
        # What reads certificates is an extra, and not installed where nobody wants TLS.
        from broker.security.tls.contexts import context_towards_nodes
        from broker.security.tls.settings import tls_settings

        settings = tls_settings(self._config, self._listener)
        compares_names = bool(self._config.of_listener(self._listener, IDENTIFICATION))
        return await self._environment.run_beside(
            lambda: context_towards_nodes(settings, compares_names=compares_names)
        )

    async def greet(self, connection: Asks) -> int:
        """Say who this node is, before anything is asked. For how many ms that is good, 0 without an end. Raises
        `NotLetIn` and `ConfigError`."""
        if not self._protocol.has_sasl:
            return 0
        return await log_in(connection, login_of(self._config, self._listener), self._environment)
