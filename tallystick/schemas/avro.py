"""Values in Avro, read with `fastavro` where it is installed: with schemas whose values cannot be larger than what is
there to be read.

In Avro a few bytes may stand for as many values as a number says, where each takes no room (an array of nulls), and a
record that has itself in it for a depth that ends the process: the reader is compiled, and its stack has an end. Such
schemas are not read; those that have themselves in them, in values of `DEEPEST` bytes at most.
"""

import io
import json
from dataclasses import dataclass
from typing import Any

DEEPEST = 2000
"""Each level of such a value takes a byte at least."""
_LARGEST = 1 << 20
_MOST_VALUES = 10_000
_MOST_FOR_A_BYTE = 16
"""Values of an item of an array or a map, for each byte that it takes."""
_DEEPEST_SCHEMA = 100
_ROOM = {"null": 0, "float": 4, "double": 8}
"""Bytes that a value takes at least; of all other types, 1."""


@dataclass(frozen=True, slots=True)
class Readable:
    """A schema that values are read with."""

    schema: Any
    has_itself: bool


def parsed(text: str) -> Readable | None:
    """None where values are not to be read with it. Raises `ValueError` for what is no schema."""
    try:
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType
    except ImportError:
        return None
    try:
        said = json.loads(text)
        if _depth(said) > _DEEPEST_SCHEMA:
            return None
        schema = parse_schema(said)
    except (SchemaParseException, UnknownType, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise ValueError(f"no schema of Avro: {problem}") from None
    measuring = _Measuring()
    try:
        measuring.room(schema, 0)
    except _Unbounded:
        return None
    return Readable(schema, measuring.has_itself)


def read(readable: Readable, data: bytes) -> object:
    """Raises `ValueError` for what is not of this schema, or too large."""
    if len(data) > (DEEPEST if readable.has_itself else _LARGEST):
        raise ValueError("too large")
    from fastavro import schemaless_reader

    try:
        return schemaless_reader(io.BytesIO(data), readable.schema, None)
    except (EOFError, LookupError, TypeError, ArithmeticError, RecursionError, AttributeError) as problem:
        raise ValueError(f"not of this schema: {problem}") from None


def _depth(said: object) -> int:
    deepest, level = 0, [said]
    while level and deepest <= _DEEPEST_SCHEMA:
        deepest += 1
        level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
    return deepest


def _inside(one: "dict[str, Any] | list[Any]") -> list[Any]:
    return list(one.values()) if isinstance(one, dict) else one


class _Unbounded(Exception):
    """Data of this schema may stand for far more than there is of it."""


@dataclass(frozen=True, slots=True)
class _Room:
    """Of one value of a schema."""

    least_bytes: int
    values: int


class _Measuring:
    """How much room values of a schema take, at least. Schemas are as `fastavro` parses them: names are whole."""

    def __init__(self) -> None:
        self.has_itself = False
        self._known: dict[str, _Room] = {}
        self._within: dict[str, int] = {}
        """Records that are being measured -> how many choices (unions, arrays, maps) lay before them."""

    def room(self, schema: Any, choices: int) -> _Room:
        """Raises `_Unbounded`."""
        if isinstance(schema, list):
            return _Room(1, 1 + max((self.room(one, choices + 1).values for one in schema), default=0))
        if isinstance(schema, str):
            return self._named(schema, choices)
        kind = schema["type"]
        match kind:
            case "record" | "error":
                return self._record(schema, choices)
            case "array" | "map":
                return self._many(schema["items" if kind == "array" else "values"], choices, is_map=kind == "map")
            case "fixed" | "enum":
                room = _Room(int(schema.get("size", 1)), 1)
                self._known[schema["name"]] = room
                return room
            case _:
                return self.room(kind, choices)

    def _named(self, name: str, choices: int) -> _Room:
        if name in self._known:
            return self._known[name]
        if name not in self._within:
            return _Room(_ROOM.get(name, 1), 1)
        if self._within[name] == choices:
            raise _Unbounded  # it has no end
        self.has_itself = True
        return _Room(1, 1)  # the choice on the way to itself takes a byte

    def _record(self, schema: Any, choices: int) -> _Room:
        name = schema["name"]
        self._within[name] = choices
        fields = [self.room(one["type"], choices) for one in schema["fields"]]
        del self._within[name]
        room = _Room(sum(one.least_bytes for one in fields), 1 + sum(one.values for one in fields))
        if room.values > _MOST_VALUES:
            raise _Unbounded
        self._known[name] = room
        return room

    def _many(self, schema: Any, choices: int, *, is_map: bool) -> _Room:
        item = self.room(schema, choices + 1)
        if item.values > (item.least_bytes + is_map) * _MOST_FOR_A_BYTE:
            raise _Unbounded
        return _Room(1, 1 + item.values)
