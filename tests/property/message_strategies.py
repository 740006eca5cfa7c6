"""Strategies made from the message tables: any message, in any version, and bytes that are nearly one."""

import dataclasses
from functools import cache
from typing import Any

from hypothesis import strategies as st

from protocol.codec import encode_bytes
from protocol.primitives import MAX_STRING_BYTES
from protocol.records.record import NewRecord
from protocol.schema import FieldSchema, Primitive, fields_of
from tests.conformance.samples import all_tables

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_FEW = 3


@dataclasses.dataclass(frozen=True)
class Written:
    """A message and the version it is written in."""

    message: Any
    version: int

    @property
    def bytes(self) -> bytes:
        return encode_bytes(self.message, self.version)


def _primitive(wire: Primitive) -> st.SearchStrategy[Any]:
    name = wire.name
    if name in _INTEGERS:
        bits = _INTEGERS[name] - 1
        return st.integers(-(1 << bits), (1 << bits) - 1)
    if name in ("uint16", "uint32"):
        return st.integers(0, (1 << int(name[4:])) - 1)
    if name == "bool":
        return st.booleans()
    if name == "float64":
        return st.floats(allow_nan=False)
    if name == "uuid":
        return st.binary(min_size=16, max_size=16)
    if name == "string":
        return st.text(max_size=20) | st.text("é", min_size=60, max_size=70) | st.just("x" * MAX_STRING_BYTES)
    return st.binary(max_size=20) | st.binary(min_size=120, max_size=140)


def _field(field: FieldSchema, version: int) -> st.SearchStrategy[Any]:
    element = _primitive(field.element) if isinstance(field.element, Primitive) else messages_of(field.element, version)
    strategy = st.lists(element, max_size=_FEW) if field.is_array else element
    if field.spec.tag is not None:
        strategy |= st.just(field.default)
    return st.none() | strategy if field.nullable_in(version) else strategy


@cache
def messages_of(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Any instance of a message or struct with what the version carries."""
    carried = [field for field in fields_of(cls) if field.in_version(version)]
    return st.builds(cls, **{field.name: _field(field, version) for field in carried})


def written() -> st.SearchStrategy[Written]:
    """Any message of any table in any of its versions."""
    return st.sampled_from(all_tables()).flatmap(
        lambda pair: messages_of(*pair).map(lambda message: Written(message, pair[1]))
    )


@st.composite
def damaged(draw: st.DrawFn) -> tuple[type, int, bytes]:
    """The bytes of a message, cut, extended or changed somewhere."""
    original = draw(written())
    data = bytearray(original.bytes)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(("cut", "insert", "change")))
        if kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=6))
        else:
            data[at : at + 1] = draw(st.sampled_from((b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff")))
    return type(original.message), original.version, bytes(data)


def new_records() -> st.SearchStrategy[list[NewRecord]]:
    """What a producer may put into one batch."""
    small = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70)
    headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3).map(tuple)
    times = st.integers(0, 1 << 45)
    record = st.builds(NewRecord, key=small, value=small, timestamp_ms=times, headers=headers)
    return st.lists(record, min_size=1, max_size=30)
