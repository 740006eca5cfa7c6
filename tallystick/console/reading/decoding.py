"""Bytes of a record as people read them: what they are is told beside them, for it is a guess.

With a schema registry, bytes in its format (0, then a schema's number in four bytes) are read with their schema.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum

IN_A_ROW = 300
IN_FULL = 256 << 10
_SCHEMA_HEAD = 5
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What no text has: tabs and ends of lines it may."""


class Kind(Enum):
    """What bytes seem to be."""

    NULL = "null"
    EMPTY = "empty"
    TEXT = "text"
    JSON = "json"
    BINARY = "hex"
    AVRO = "avro"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`text` may be cut: `size_bytes` is that of everything."""

    kind: Kind
    text: str
    size_bytes: int
    is_cut: bool = False
    schema: int | None = None
    """Its number in the registry."""


def decoded(data: bytes | None, most: int = IN_A_ROW, *, indent: int | None = None) -> Decoded:
    """Without a registry."""
    if data is None:
        return Decoded(Kind.NULL, "null", 0)
    if not data:
        return Decoded(Kind.EMPTY, "empty", 0)
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        return as_hex(data, most)
    if _CONTROL.search(text, 0, most):
        return as_hex(data, most)
    if text[0] in "{[":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return cut(Kind.JSON, as_json(found, indent), len(data), most)
    return cut(Kind.TEXT, text, len(data), most)


def as_json(found: object, indent: int | None) -> str:
    """As it was, in the order of its fields; bytes and times, which Avro knows and JSON does not, as texts."""
    separators = None if indent is not None else (",", ":")
    return json.dumps(found, indent=indent, ensure_ascii=False, separators=separators, default=_foreign)


def _foreign(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def cut(kind: Kind, text: str, size_bytes: int, most: int, schema: int | None = None) -> Decoded:
    """So many characters at most."""
    return Decoded(kind, text[:most], size_bytes, len(text) > most, schema)


def as_hex(data: bytes, most: int) -> Decoded:
    """Pairs of digits, as `hexdump` has them."""
    return Decoded(Kind.BINARY, data[: most // 3].hex(" "), len(data), len(data) > most // 3)


def schema_number(data: bytes | None) -> int | None:
    """The number in front of bytes that a serializer of the registry wrote."""
    if data is None or len(data) < _SCHEMA_HEAD or data[0]:
        return None
    return int.from_bytes(data[1:_SCHEMA_HEAD], "big")


def behind_number(data: bytes) -> bytes:
    return data[_SCHEMA_HEAD:]
