"""The families of APIs this broker serves: importing them fills the catalogue."""

from broker.api.catalogue import CATALOGUE, Entry
from broker.api.handlers import (
    configs,
    features,
    fetch,
    group_offsets,
    groups,
    metadata,
    offsets,
    produce,
    topics,
    transactions,
)

FAMILIES = (produce, fetch, offsets, metadata, topics, configs, features, transactions, groups, group_offsets)


def load_handlers() -> dict[int, Entry]:
    """The whole catalogue."""
    assert FAMILIES
    return CATALOGUE
