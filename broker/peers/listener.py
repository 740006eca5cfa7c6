"""By which listener nodes ask one another, as Kafka's settings name it, and under which client id."""

from broker.config.broker_config import BrokerConfig, ConfigError
from coordinator.cluster.keys.config_types import ConfigSource

BY_NAME, BY_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
CLIENT_ID = "node-"
"""What a node calls itself as a client of others begins with it."""


def between_nodes(config: BrokerConfig) -> str:
    """Its name: the one that is named, else the first with the protocol that is named, else the first of all. Raises
    `ConfigError` where there is none such."""
    names = [one.listener for one in config.listeners]
    said = config.get(BY_NAME)
    if isinstance(said, str) and said:
        if said.upper() not in names:
            raise ConfigError(f"{BY_NAME}: there is no listener called {said}.")
        return said.upper()
    protocol = config.get_str(BY_PROTOCOL)
    fitting = [name for name in names if config.security_protocol(name) == protocol]
    if not fitting and config.resolve(BY_PROTOCOL).source is not ConfigSource.DEFAULT:
        raise ConfigError(f"{BY_PROTOCOL}: there is no listener that speaks {protocol}.")
    return (fitting or names)[0]


def client_id_of(node_id: int) -> str:
    return f"{CLIENT_ID}{node_id}"


def is_called_as_nodes_are(client_id: str | None) -> bool:
    return client_id is not None and client_id.startswith(CLIENT_ID) and client_id[len(CLIENT_ID) :].isdecimal()
