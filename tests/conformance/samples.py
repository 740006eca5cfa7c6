"""Messages made up from a table and a seed: every field of a version filled with something that is not its default.

Values stay within what the oracles can hold: error codes that exist, times that fit a `timedelta`.
"""

import random
from collections.abc import Iterator
from typing import Any

from coordinator.cluster import records as cluster_records
from coordinator.groups import records as group_records
from coordinator.groups.share import records as share_group_records
from coordinator.share_state import records as share_state_records
from coordinator.transactions import records as transaction_records
from protocol.errors import ErrorCode
from protocol.framing import REQUESTS, RESPONSES
from protocol.messages import header
from protocol.schema import OWN_TAG, FieldSchema, Kind, Primitive, fields_of, schema_of

_WIDTHS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_LAST_COMMON_ERROR = ErrorCode.TRANSACTION_ABORTABLE
_MODULES = (
    *(transaction_records, group_records, share_group_records, share_state_records, cluster_records),
    header,
)


def messages() -> list[tuple[type, int]]:
    """Every request and response that we speak, in every version."""
    classes = [table[key] for key in REQUESTS for table in (REQUESTS, RESPONSES)]
    return [(cls, version) for cls in classes for version in schema_of(cls).versions]


def all_tables() -> list[tuple[type, int]]:
    """The same, and headers and what coordinators write to their logs."""
    others = (cls for module in _MODULES for cls in vars(module).values() if hasattr(cls, "__wire__"))
    return messages() + [(cls, version) for cls in others for version in schema_of(cls).versions]


def label(pair: tuple[type, int]) -> str:
    """How a test of one version is called."""
    return f"{pair[0].__name__}-v{pair[1]}"


def kind_of(cls: type) -> Kind:
    return schema_of(cls).kind


def sample(cls: type, version: int, rng: random.Random) -> Any:
    """A message that uses whatever the version carries, but for what is not in Kafka's."""
    fields = [field for field in fields_of(cls) if field.in_version(version) and not _is_ours(field)]
    return cls(**{field.name: _value(field, version, rng) for field in fields})


def _is_ours(field: FieldSchema) -> bool:
    """What nodes tell each other in a tag of their own (KIP-482), which others pass over."""
    return field.spec.tag is not None and field.spec.tag >= OWN_TAG


def carried(message: Any, version: int) -> Iterator[tuple[FieldSchema, Any]]:
    """The fields of a message that a version carries, with their values."""
    for field in fields_of(type(message)):
        if field.in_version(version) and not _is_ours(field):
            yield field, getattr(message, field.name)


def _value(field: FieldSchema, version: int, rng: random.Random) -> Any:
    if field.nullable_in(version) and rng.random() < 0.25:
        return None
    if field.is_array:
        return [_element(field, version, rng) for _ in range(rng.randrange(4))]
    return _element(field, version, rng)


def _element(field: FieldSchema, version: int, rng: random.Random) -> Any:
    if not isinstance(field.element, Primitive):
        return sample(field.element, version, rng)
    wire = field.element.name
    if wire in _WIDTHS:
        return _integer(field.name, _WIDTHS[wire], rng)
    if wire == "bool":
        return rng.random() < 0.5
    if wire in ("uint16", "uint32"):
        return rng.randrange(1 << int(wire[4:]))
    if wire == "float64":
        return rng.choice((0.0, -1.5, 1e300, float(rng.randrange(1 << 40))))
    if wire == "uuid":
        return rng.randbytes(16)
    size = rng.choice((0, 1, 5, 20, 126, 127, 128, 300))
    if wire == "string":
        return "".join(rng.choice("abcdefgh-_.éß漢😀") for _ in range(size))
    return rng.randbytes(size)


def _integer(name: str, bits: int, rng: random.Random) -> int:
    if "error_code" in name:
        return rng.randrange(1, _LAST_COMMON_ERROR)
    if "_ms" in name or "timestamp" in name or "time" in name:
        return rng.randrange(1 << min(bits, 31))
    largest = (1 << bits) - 1
    return rng.choice((0, 1, -1, 7, largest, -largest - 1, rng.randrange(-largest, largest)))
