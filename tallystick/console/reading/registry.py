"""Schemas of a Confluent schema registry, each asked for once, and values read with them.

Avro is read where `fastavro` is installed, JSON Schema always. Of Protobuf, and of a schema that cannot be had, the
number is shown with the bytes.
"""

import asyncio
import io
import json
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tallystick.client.background import monotonic_s
from tallystick.console.reading.decoding import (
    Decoded,
    Kind,
    as_hex,
    as_json,
    behind_number,
    cut,
    decoded,
    schema_number,
)

_WAITED_S = 3.0
_MOST_BYTES = 1 << 20
_MOST_KNOWN = 1000
_MISSING_S = 30.0
"""After so long a schema that could not be had is asked for again."""


@dataclass(frozen=True, slots=True)
class Schema:
    """`parsed` is None where values cannot be read with it."""

    kind: str
    parsed: Any


class Registry:
    """See the head of this file."""

    def __init__(self, url: str | None) -> None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no address of a registry: it begins with http:// or https://")
        self._url = url
        self._known: dict[int, Schema] = {}
        self._missing_until_s: dict[int, float] = {}

    async def wait_until_known(self, values: Collection[bytes | None]) -> None:
        """Ask for the schemas of these values that are not there yet."""
        if self._url is None:
            return
        now_s = monotonic_s()
        numbers = {number for number in map(schema_number, values) if number is not None}
        for number in sorted(numbers):
            if number not in self._known and self._missing_until_s.get(number, 0.0) < now_s:
                await self._look_up(number)

    async def _look_up(self, number: int) -> None:
        try:
            said = await asyncio.to_thread(self._ask, number)
            schema = _schema(said)
        except (OSError, ValueError, urllib.error.URLError):
            while len(self._missing_until_s) >= _MOST_KNOWN:
                self._missing_until_s.pop(next(iter(self._missing_until_s)))
            self._missing_until_s[number] = monotonic_s() + _MISSING_S
            return
        while len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[number] = schema

    def _ask(self, number: int) -> Any:
        url = f"{str(self._url).rstrip('/')}/schemas/ids/{number}"
        with urllib.request.urlopen(url, timeout=_WAITED_S) as answer:  # noqa: S310 - http or https
            return json.loads(answer.read(_MOST_BYTES))

    def decoded(self, data: bytes | None, most: int, *, indent: int | None = None) -> Decoded:
        """With what is known by now."""
        number = schema_number(data) if self._url is not None else None
        schema = None if number is None else self._known.get(number)
        if data is None or schema is None:
            return decoded(data, most, indent=indent)
        try:
            found, kind = _read(schema, behind_number(data))
        except (ValueError, EOFError, LookupError, TypeError, RecursionError):
            found, kind = None, Kind.BINARY
        if kind is Kind.BINARY:
            plain = as_hex(data, most)
            return Decoded(plain.kind, plain.text, plain.size_bytes, plain.is_cut, number)
        return cut(kind, as_json(found, indent), len(data), most, number)


def _schema(said: Any) -> Schema:
    kind = said.get("schemaType", "AVRO")
    if kind != "AVRO" or said.get("references"):
        return Schema(kind, None)
    try:
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType
    except ImportError:
        return Schema(kind, None)
    try:
        return Schema(kind, parse_schema(json.loads(said["schema"])))
    except (SchemaParseException, UnknownType, KeyError) as problem:
        raise ValueError(f"no schema of Avro: {problem}") from None


def _read(schema: Schema, data: bytes) -> tuple[object, Kind]:
    if schema.kind == "JSON":
        return json.loads(data), Kind.JSON
    if schema.parsed is None:
        return None, Kind.BINARY
    from fastavro import schemaless_reader

    return schemaless_reader(io.BytesIO(data), schema.parsed, None), Kind.AVRO
