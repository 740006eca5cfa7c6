"""The engine of the store that the settings name."""

from broker.config.broker_config import BrokerConfig, ConfigError
from storage.shared.store import SharedStore, StoreRefused

POSTGRESQL = ("postgresql://", "postgres://")


def store_of(config: BrokerConfig) -> SharedStore | None:
    """The shared store, where logs are in one; an engine is never imported otherwise. Raises `ConfigError`."""
    if not config.store:
        return None
    if not config.store.startswith(POSTGRESQL):
        raise ConfigError(f"tallystick.store: that is not the address of a database ({POSTGRESQL[0]}…).")
    from broker.shared.postgresql import PostgresqlStore

    try:
        return PostgresqlStore(config.store)
    except StoreRefused as refused:
        raise ConfigError(f"tallystick.store: {refused}.") from refused
