"""The handlers of this broker: importing them fills the catalogue."""

from broker.api.catalogue import CATALOGUE, Entry
from broker.api.handlers import (
    acls,
    client_quotas,
    configs,
    features,
    fetch,
    find_coordinator,
    group_administration,
    group_offsets,
    groups,
    metadata,
    offset_fetch,
    offsets,
    produce,
    topics,
    transaction_inspection,
    transaction_markers,
    transactions,
)
from broker.api.handlers.identity import delegation_tokens, sasl, scram

HANDLERS = (
    *(produce, fetch, offsets, metadata, topics, configs, client_quotas, features, acls),
    *(sasl, scram, delegation_tokens),
    *(transactions, transaction_inspection, transaction_markers),
    *(find_coordinator, groups, group_administration, group_offsets, offset_fetch),
)


def load_handlers() -> dict[int, Entry]:
    """The whole catalogue."""
    assert HANDLERS
    return CATALOGUE
