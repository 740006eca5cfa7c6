"""Changing quotas of users, client ids and addresses (KIP-546): an entity changes whole or not at all.

Pure: reads the table, returns an answer per entity and the records that make it true. Sentences as Kafka's.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.cluster.keys.config_types import ConfigType
from coordinator.cluster.keys.limit_keys import canonical_address
from coordinator.cluster.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
    QuotaTable,
    record_of,
)
from coordinator.cluster.records import ClientQuotaRecord
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import Decided, never_spent
from protocol.errors import ErrorCode

_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}
_OF_ADDRESSES = {CONNECTION_CREATION_RATE: ConfigType.INT}
_LARGEST = {ConfigType.INT: (1 << 31) - 1, ConfigType.LONG: (1 << 63) - 1}
_FRACTION = 1e-6


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """One entity, and for each key its new value, or None where it goes."""

    entity: Entity
    ops: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class AlteredQuotas:
    """What became of one entity."""

    entity: Entity
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_quotas(
    table: QuotaTable,
    alterations: Sequence[QuotaAlteration],
    decided: Decided,
    times_named: Mapping[Entity, int],
    spent: Callable[[], bool] = never_spent,
) -> list[AlteredQuotas]:
    """Decide entities, each on its own: one at least, and as many as there is time for. `times_named` is for the
    request as a whole, where these are not all of it."""
    results: list[AlteredQuotas] = []
    for one in alterations:
        try:
            keys = Counter(key for key, _ in one.ops)
            if times_named[one.entity] > 1 or any(count > 1 for count in keys.values()):
                raise Refused(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {_described(one.entity)}")
            decided.records.extend(_decide(table.by_entity.get(one.entity, {}), one))
            results.append(AlteredQuotas(one.entity))
        except Refused as refused:
            results.append(AlteredQuotas(one.entity, refused.error, refused.message))
        if spent():
            break
    return results


def _described(entity: Entity) -> str:
    pairs = (f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{', '.join(pairs)}}})"


def _decide(current: Mapping[str, float], one: QuotaAlteration) -> list[ClientQuotaRecord]:
    known = _keys_of(one.entity)
    records: list[ClientQuotaRecord] = []
    for key, value in one.ops:
        if value is None:
            if key in current:
                records.append(record_of(one.entity, key, None))
            continue
        _check_value(known, key, value)
        if current.get(key) != value:
            records.append(record_of(one.entity, key, value))
    return records


def _keys_of(entity: Entity) -> Mapping[str, ConfigType]:
    """The quotas that an entity of this form can have."""
    if not entity:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise Refused(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return _OF_CLIENTS
    if len(names) > 1:
        message = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    if names[IP] is not None and canonical_address(names[IP] or "") is None:
        # Kafka looks names of hosts up, here and once more whenever it starts; what they stand for may change.
        raise Refused(ErrorCode.INVALID_REQUEST, f"{names[IP]} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check_value(known: Mapping[str, ConfigType], key: str, value: float) -> None:
    kind = known.get(key)
    if kind is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if value <= 0.0 or math.isnan(value):  # Kafka takes what is not a number, and then never throttles
        raise Refused(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if kind is ConfigType.DOUBLE:
        return
    if value > _LARGEST[kind]:
        article = "an" if kind is ConfigType.INT else "a"
        raise Refused(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for {article} {kind.name}.")
    if abs(math.fmod(value, 1.0)) > _FRACTION:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")
