"""Quotas of users, client ids and addresses, as the log tells of them, and how they are asked for (KIP-546, KIP-612).

An entity is what a quota is set for: pairs of a type and a name, in the order of the types; a name that is None stands
for all that have no quota of their own. Sentences and codes as a running Kafka gives them.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.cluster.records import ClientQuotaRecord, QuotaEntity
from coordinator.cluster.topic_rules import Refused
from protocol.errors import ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""(type, name or None for the default) of each, sorted by type."""

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""What a component of a filter asks for: this name, the default, or any of the type."""


def entity_of(pairs: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of these pairs; of a type that comes twice the last name holds, as in Kafka."""
    return tuple(sorted(dict(pairs).items()))


class QuotaTable:
    """What the log says. The quotas of an entity are not changed in place: who holds them holds what was."""

    def __init__(self) -> None:
        self.by_entity: dict[Entity, Mapping[str, float]] = {}
        self.changed: deque[tuple[int, Entity, Mapping[str, float]]] = deque()
        """(offset of the record, entity, all its quotas since then): what followers have not seen yet."""

    def replay(self, record: ClientQuotaRecord, offset: int) -> None:
        entity = entity_of((one.entity_type, one.entity_name) for one in record.entity)
        quotas = dict(self.by_entity.get(entity, {}))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self.by_entity[entity] = quotas
        else:
            self.by_entity.pop(entity, None)
        self.changed.append((offset, entity, quotas))


def record_of(entity: Entity, key: str, value: float | None) -> ClientQuotaRecord:
    """What the log says of one quota; None: it is gone."""
    return ClientQuotaRecord(
        entity=[QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=value or 0.0,
        remove=value is None,
    )


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Which entities are asked for. `exact`: these names (None: the default); `types`: any name of these types.
    `strict`: nothing but these types."""

    exact: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    types: frozenset[str] = frozenset()
    strict: bool = False

    def matches(self, entity: Entity) -> bool:
        if self.strict and len(entity) != len(self.exact) + len(self.types):
            return False
        names = dict(entity)
        return all(kind in names for kind in self.types) and all(
            kind in names and names[kind] == name for kind, name in self.exact.items()
        )


def quota_filter(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> QuotaFilter:
    """A filter of (type, kind of match, name). Raises `Refused`."""
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for kind, match_type, match in components:
        if not kind:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in types:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise Refused(ErrorCode.INVALID_REQUEST, message)
        if kind not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
        if (match is None) == (match_type == EXACT):
            said = "but set match string to null." if match is None else "but also specified a match string."
            name = ("EXACT", "DEFAULT", "SPECIFIED")[match_type]
            raise Refused(ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{name}, {said}")
        if match_type == SPECIFIED:
            types.add(kind)
        else:
            exact[kind] = match
    named = {*exact, *types}
    if IP in named and len(named) > 1:
        message = (
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    return QuotaFilter(exact, frozenset(types), strict)
