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
        return _objects_apart(config) if config.objects else PostgresqlStore(config.store)
    except StoreRefused as refused:
        raise ConfigError(f"tallystick.store: {refused}.") from refused


def _objects_apart(config: BrokerConfig) -> SharedStore:
    from broker.shared.bucket import Bucket, Place
    from broker.shared.objects_in_s3 import ObjectsInS3

    try:
        place = Place(config.objects)
        bucket = Bucket(place)
    except StoreRefused as refused:
        raise ConfigError(f"tallystick.store.objects: {refused}.") from refused
    return ObjectsInS3(config.store, place, bucket)
