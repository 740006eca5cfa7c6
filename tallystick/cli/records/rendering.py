"""A record as it is shown. Nothing that a record holds reaches a terminal as it is: there, what is no visible character
is written as an escape; into a pipe or a file, text goes byte by byte as it was produced.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from tallystick.cli.tables import printable
from tallystick.records.fates import Fate
from tallystick.records.reader import Seen

COLOURS = {Fate.COMMITTED: "green", Fate.ABORTED: "red", Fate.OPEN: "yellow", Fate.CONTROL: "blue"}
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|\\.")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "{{": "{", "}}": "}"}
_FATE_WIDTH = max(len(fate.value) for fate in Fate)
_HEX_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Manner:
    """How records are shown."""

    style: str
    """text, json, hex or template."""
    template: str = ""
    key_separator: str | None = None
    """text: the key and this stand before the value."""
    with_fates: bool = False
    """text and hex: what became of the transaction stands before a record."""
    is_terminal: bool = False


def renderer(manner: Manner) -> Callable[[Seen], bytes]:
    """One that gives whole lines. Raises `ValueError` where a template is none."""
    if manner.style == "json":
        return lambda seen: json.dumps(as_json(seen)).encode() + b"\n"
    if manner.style == "hex":
        return lambda seen: _coloured(seen, manner, _hexadecimal(seen, manner))
    if manner.style == "template":
        parts = list(_parts(manner.template))
        return lambda seen: _coloured(seen, manner, b"".join(_part(seen, one, manner) for one in parts))
    return lambda seen: _coloured(seen, manner, _text(seen, manner) + b"\n")


def as_json(seen: Seen) -> dict[str, object]:
    """As `tallystick produce --json` takes it. What is no UTF-8 is in base64, under a name that says so."""
    record = seen.record
    said: dict[str, object] = {
        "topic": seen.place[0],
        "partition": seen.place[1],
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_part_of(seen, "key"),
        **_part_of(seen, "value"),
        "headers": [{"name": name, **_bytes("value", value)} for name, value in record.headers],
        "transaction": None if seen.fate is Fate.NONE else seen.fate.value,
    }
    if seen.fate is not Fate.NONE:
        said["producerId"] = seen.producer_id
    if seen.fate is Fate.CONTROL:
        said["control"] = seen.marker
    return said


def _part_of(seen: Seen, name: str) -> dict[str, object]:
    """A key or a value. One that was read by its schema is JSON in JSON, and the number of the schema."""
    data, schema = (seen.record.key, seen.key_schema) if name == "key" else (seen.record.value, seen.value_schema)
    if schema is None or data is None:
        return dict(_bytes(name, data))
    return {name: json.loads(data), f"{name}Schema": schema}


def _bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}Base64": base64.b64encode(data).decode()}


def _text(seen: Seen, manner: Manner) -> bytes:
    prefix = f"{seen.fate.value:{_FATE_WIDTH}}  ".encode() if manner.with_fates else b""
    if seen.fate is Fate.CONTROL:
        return prefix + f"{seen.marker} of producer id {seen.producer_id}".encode()
    value = _safe(seen.record.value, manner)
    if manner.key_separator is None:
        return prefix + value
    return prefix + _safe(seen.record.key, manner) + _given(manner.key_separator) + value


def _safe(data: bytes | None, manner: Manner) -> bytes:
    if data is None:
        return b"null"
    return printable(data.decode("utf-8", "backslashreplace")).encode() if manner.is_terminal else data


def _coloured(seen: Seen, manner: Manner, line: bytes) -> bytes:
    if not manner.is_terminal or seen.fate not in COLOURS:
        return line
    text = line.decode("utf-8", "backslashreplace")
    shown = click.style(text.removesuffix("\n"), fg=COLOURS[seen.fate])
    return shown.encode() + b"\n" * text.endswith("\n")


def _hexadecimal(seen: Seen, manner: Manner) -> bytes:
    record = seen.record
    fate = f"  {seen.fate.value} {seen.marker}".rstrip() if manner.with_fates else ""
    lines = [f"{seen.place[0]}-{seen.place[1]} offset {record.offset} timestamp {record.timestamp_ms}{fate}"]
    lines += _dump("key", record.key)
    lines += _dump("value", record.value)
    for name, value in record.headers:
        lines += _dump(f"header {printable(name)}", value)
    return "\n".join(lines).encode() + b"\n"


def _dump(name: str, data: bytes | None) -> Iterator[str]:
    yield f"  {name}: " + ("null" if data is None else f"{len(data)} bytes")
    for at in range(0, len(data or b""), _HEX_WIDTH):
        assert data is not None
        piece = data[at : at + _HEX_WIDTH]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"    {at:08x}  {piece.hex(' '):{3 * _HEX_WIDTH - 1}}  {characters}"


FIELDS: dict[str, Callable[[Seen, Manner], bytes]] = {
    "topic": lambda seen, _: seen.place[0].encode(),
    "partition": lambda seen, _: str(seen.place[1]).encode(),
    "offset": lambda seen, _: str(seen.record.offset).encode(),
    "timestamp": lambda seen, _: str(seen.record.timestamp_ms).encode(),
    "time": lambda seen, _: _time(seen.record.timestamp_ms).encode(),
    "key": lambda seen, manner: _safe(seen.record.key, manner),
    "value": lambda seen, manner: _safe(seen.record.value, manner),
    "headers": lambda seen, manner: _headers(seen, manner),
    "transaction": lambda seen, _: seen.fate.value.encode(),
    "producer": lambda seen, _: str(seen.producer_id).encode(),
}
"""Of a template, by name."""


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def _headers(seen: Seen, manner: Manner) -> bytes:
    pairs = ((_safe(name.encode(), manner), _safe(value, manner)) for name, value in seen.record.headers)
    return b",".join(name + b":" + value for name, value in pairs)


def _parts(template: str) -> Iterator[bytes | str]:
    """Bytes as they are, and names of fields."""
    at = 0
    for match in _FIELD.finditer(template):
        yield _given(template[at : match.start()])
        at = match.end()
        if match[1] in FIELDS:
            yield match[1]
        elif match[0] in _ESCAPES:
            yield _ESCAPES[match[0]].encode()
        else:
            raise ValueError(f"{match[0]!r} is no field of a template; there are {', '.join(FIELDS)}, \\n and \\t")
    yield _given(template[at:])


def _given(text: str) -> bytes:
    """What stands in an argument need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _part(seen: Seen, one: bytes | str, manner: Manner) -> bytes:
    return one if isinstance(one, bytes) else FIELDS[one](seen, manner)
