"""Records out of lines: `value`, `key SEPARATOR value`, `name:value,name:value TAB …` before either, or JSON objects as
`tallystick consume --json` writes them.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from protocol.records.record import Headers, NewRecord

_HEADERS_END = b"\t"
_TIMESTAMPS = range(-1, 1 << 63)


class BadLine(Exception):
    """A line is no record; the message says why."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A record, and where its line wants it."""

    record: NewRecord
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """How lines are written."""

    as_json: bool = False
    key_separator: bytes | None = None
    with_headers: bool = False
    null_marker: bytes | None = None
    """A key or value that reads so is null."""
    headers: Headers = ()
    """Of each record, before its own."""

    def parsed(self, line: bytes, now_ms: int) -> Parsed:
        """Raises `BadLine`."""
        return self._of_json(line, now_ms) if self.as_json else Parsed(self._of_text(line, now_ms))

    def _of_text(self, line: bytes, now_ms: int) -> NewRecord:
        headers = self.headers
        if self.with_headers:
            written, found, line = line.partition(_HEADERS_END)
            if not found:
                raise BadLine("there is no tab behind the headers")
            headers += tuple(_header(pair) for pair in written.split(b",") if pair)
        key = None
        if self.key_separator is not None:
            before, found, line = line.partition(self.key_separator)
            if not found:
                raise BadLine(f"there is no {self.key_separator.decode(errors='replace')!r} behind the key")
            key = self._or_null(before)
        return NewRecord(self._or_null(line), key, now_ms, headers)

    def _or_null(self, data: bytes) -> bytes | None:
        return None if self.null_marker is not None and data == self.null_marker else data

    def _of_json(self, line: bytes, now_ms: int) -> Parsed:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise BadLine(f"it is no JSON: {problem}") from None
        if not isinstance(said, dict):
            raise BadLine("it is no JSON object")
        if said.get("control") is not None:
            raise BadLine("it is the marker of a transaction, which no producer writes")
        timestamp = _number(said, "timestamp", _TIMESTAMPS, now_ms)
        assert timestamp is not None
        headers = said.get("headers")
        headers = [] if headers is None else headers
        if not isinstance(headers, list) or not all(isinstance(one, dict) for one in headers):
            raise BadLine("headers are no list of objects")
        named = tuple((_name(one), _bytes_of(one, "value")) for one in headers)
        record = NewRecord(_bytes_of(said, "value"), _bytes_of(said, "key"), timestamp, self.headers + named)
        return Parsed(record, _number(said, "partition", range(1 << 31), None))


def _header(pair: bytes) -> tuple[str, bytes | None]:
    name, found, value = pair.partition(b":")
    try:
        if found:
            return name.decode(), value
    except UnicodeDecodeError:
        pass
    raise BadLine(f"{pair!r} is no header NAME:VALUE")


def _number(said: dict[str, Any], name: str, allowed: range, otherwise: int | None) -> int | None:
    found = said.get(name)
    if found is None:
        return otherwise
    if isinstance(found, bool) or not isinstance(found, int) or found not in allowed:
        raise BadLine(f"{name} is no such number: {json.dumps(found)[:40]}")
    return found


def _name(header: dict[str, Any]) -> str:
    name = header.get("name")
    if not isinstance(name, str):
        raise BadLine("a header has no name")
    return _encodable(name, "a header's name")


def _bytes_of(said: dict[str, Any], name: str) -> bytes | None:
    """Text, null, another JSON value as JSON is written, or base64 under the name that says so."""
    coded = said.get(f"{name}Base64")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise BadLine(f"{name}Base64 is no base64") from None
    found = said.get(name)
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    return _encodable(text, name).encode()


def _encodable(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{what} holds half a character") from None
    return text
