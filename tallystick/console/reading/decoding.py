"""Bytes of a record as people read them: what they are is told beside them, for it is a guess.

Nobody who writes records makes a page expensive: of what is large the beginning is looked at, and what is laid out
anew ends where a page ends.
"""

import json
import re
from codecs import getincrementaldecoder
from dataclasses import dataclass
from enum import Enum

IN_A_ROW = 300
IN_FULL = 256 << 10
LARGEST_JSON = 1 << 20
"""Of what is larger only the beginning is looked at, and that is text."""
_DEEPEST = 40
"""Lines are indented so deep at most."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
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
    PROTOBUF = "protobuf"


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
    is_whole = len(data) <= LARGEST_JSON
    try:
        text = getincrementaldecoder("utf-8")().decode(data if is_whole else data[: 4 * most], final=is_whole)
    except UnicodeDecodeError:
        return as_hex(data, most)
    if _CONTROL.search(text, 0, most):
        return as_hex(data, most)
    if is_whole and is_json(text):
        return cut(Kind.JSON, laid_out(text, indent, most), len(data), most)
    return cut(Kind.TEXT, text, len(data), most, is_cut=not is_whole)


def is_json(text: str) -> bool:
    """An object or an array: whatever else JSON allows is text."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text, parse_constant=_no_constant, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not of JSON")


def laid_out(text: str, indent: int | None, most: int) -> str:
    """JSON in lines, or (`indent` is None) in one, up to where it is longer than `most`. Numbers, names that are there
    twice and escapes stay as they were written: what is shown is what is there."""
    parts: list[str] = []
    size = depth = 0
    before = ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        depth -= token in ("}", "]")
        gap = "" if indent is None else _gap(before, token, indent * min(depth, _DEEPEST))
        parts += (gap, token)
        size += len(gap) + len(token)
        if size > most:
            break
        depth += token in ("{", "[")
        before = token
    return "".join(parts)


def _gap(before: str, token: str, spaces: int) -> str:
    if before == ":":
        return " "
    is_closing = token in ("}", "]")
    starts_line = (
        before == "," or (before in ("{", "[") and not is_closing) or (is_closing and before not in ("{", "["))
    )
    return "\n" + " " * spaces if starts_line else ""


def cut(
    kind: Kind, text: str, size_bytes: int, most: int, schema: int | None = None, *, is_cut: bool = False
) -> Decoded:
    """So many characters at most."""
    return Decoded(kind, text[:most], size_bytes, is_cut or len(text) > most, schema)


def as_hex(data: bytes, most: int) -> Decoded:
    """Pairs of digits, as `hexdump` has them."""
    return Decoded(Kind.BINARY, data[: most // 3].hex(" "), len(data), len(data) > most // 3)
