"""Schemas of a Confluent schema registry, each asked for once, and values read with them.

Avro is read where `fastavro` is installed, JSON Schema always. Of Protobuf, and of a schema that cannot be had, the
number is shown with the bytes.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from tallystick.client.background import monotonic_s
from tallystick.console.reading import avro
from tallystick.console.reading.decoding import (
    LARGEST_JSON,
    Decoded,
    Kind,
    as_hex,
    as_json,
    behind_number,
    cut,
    decoded,
    laid_out,
    schema_number,
)

_WAITED_S = 3.0
_MOST_BYTES = 1 << 20
_MOST_KNOWN = 1000
_MISSING_S = 30.0
"""After so long a schema that could not be had is asked for again, and a registry that does not answer."""
_ASKED_FOR_A_PAGE = 20
"""Whoever writes records chooses the numbers in them."""


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
        self._silent_until_s = float("-inf")

    async def wait_until_known(self, values: Collection[bytes | None]) -> None:
        """Ask for the schemas of these values that are not there yet."""
        if self._url is None:
            return
        now_s = monotonic_s()
        numbers = {number for number in map(schema_number, values) if number is not None}
        new = [one for one in sorted(numbers) if one not in self._known and self._missing_until_s.get(one, 0.0) < now_s]
        await asyncio.gather(*map(self._look_up, new[:_ASKED_FOR_A_PAGE]))

    async def _look_up(self, number: int) -> None:
        try:
            schema = schema_of(await asyncio.to_thread(self._ask, number))
        except urllib.error.HTTPError:
            schema = None
        except (OSError, HTTPException):
            self._silent_until_s = monotonic_s() + _MISSING_S
            return
        except ValueError:
            schema = None
        if schema is None:
            while len(self._missing_until_s) >= _MOST_KNOWN:
                self._missing_until_s.pop(next(iter(self._missing_until_s)))
            self._missing_until_s[number] = monotonic_s() + _MISSING_S
            return
        while len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[number] = schema

    def _ask(self, number: int) -> Any:
        if self._silent_until_s > monotonic_s():  # found out meanwhile, for another number
            raise OSError("the registry does not answer")
        url = f"{str(self._url).rstrip('/')}/schemas/ids/{number}"
        with urllib.request.urlopen(url, timeout=_WAITED_S) as answer:  # noqa: S310 - http or https
            return json.loads(answer.read(_MOST_BYTES))

    def decoded(self, data: bytes | None, most: int, *, indent: int | None = None) -> Decoded:
        """With what is known by now."""
        number = schema_number(data) if self._url is not None else None
        schema = None if number is None else self._known.get(number)
        if data is None or schema is None:
            return decoded(data, most, indent=indent)
        text = _read(schema, behind_number(data), most, indent)
        if text is None:
            plain = as_hex(data, most)
            return Decoded(plain.kind, plain.text, plain.size_bytes, plain.is_cut, number)
        return cut(Kind.JSON if schema.kind == "JSON" else Kind.AVRO, text, len(data), most, number)


def schema_of(said: Any) -> Schema:
    """What a registry says of one. Raises `ValueError` for what is none."""
    if not isinstance(said, dict) or not isinstance(said.get("schema"), str):
        raise ValueError("that is no schema")
    kind = str(said.get("schemaType", "AVRO"))
    if kind != "AVRO" or said.get("references"):
        return Schema(kind, None)
    return Schema(kind, avro.parsed(said["schema"]))


def _read(schema: Schema, data: bytes, most: int, indent: int | None) -> str | None:
    """None where it cannot be read with this schema."""
    if schema.kind == "JSON":
        if len(data) > LARGEST_JSON:
            return None
        try:
            text = data.decode()
            json.loads(text)
        except (ValueError, RecursionError):
            return None
        return laid_out(text, indent, most)
    if schema.parsed is None:
        return None
    try:
        return as_json(avro.read(schema.parsed, data), indent, most)
    except (ValueError, RecursionError):
        return None
