"""The handlers of this broker: importing them fills the catalogue."""

from broker.api.catalogue import CATALOGUE, Entry
from broker.api.handlers import (
    acls,
    client_quotas,
    configs,
    consumer_groups,
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
    streams_groups,
    topics,
    transaction_inspection,
    transaction_markers,
    transactions,
)
from broker.api.handlers.administration import log_dirs, placement, quorum, telemetry
from broker.api.handlers.identity import delegation_tokens, sasl, scram
from broker.api.handlers.share import acknowledge as share_acknowledge
from broker.api.handlers.share import fetch as share_fetch
from broker.api.handlers.share import groups as share_groups
from broker.api.handlers.share import offsets as share_offsets
from broker.api.handlers.share import state as share_state
from broker.config.broker_config import BrokerConfig

HANDLERS = (
    *(produce, fetch, offsets, metadata, topics, configs, client_quotas, features, acls),
    *(sasl, scram, delegation_tokens),
    *(log_dirs, placement, quorum, telemetry),
    *(transactions, transaction_inspection, transaction_markers),
    *(find_coordinator, groups, consumer_groups, streams_groups, group_administration, group_offsets, offset_fetch),
    *(share_groups, share_offsets, share_state, share_fetch, share_acknowledge),
)


def load_handlers() -> dict[int, Entry]:
    """The whole catalogue."""
    assert HANDLERS
    return CATALOGUE


def served(config: BrokerConfig) -> dict[int, Entry]:
    """What of it a node with these settings serves."""
    return {key: entry for key, entry in load_handlers().items() if not entry.setting or config.get_bool(entry.setting)}
