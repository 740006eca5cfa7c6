"""Schemas of a Confluent schema registry, each asked for once, and values read with them.

Avro and Protobuf are read where their libraries are installed (the extra `schemas`), JSON Schema always. A schema that
cannot be had or read by is known by its number alone.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from tallystick.client.background import monotonic_s
from tallystick.schemas import avro, protobuf
from tallystick.schemas.wire import BadFrame, opened

_WAITED_S = 3.0
_WAITED_IN_ALL_S = 20.0
"""For one schema with all that it imports."""
_MOST_BYTES = 1 << 20
_MOST_KNOWN, _MOST_KEPT = 1000, 8 << 20
"""Schemas, and characters of them."""
_MISSING_S = 30.0
"""After so long a schema that could not be had is asked for again, and a registry that does not answer."""
ASKED_FOR_A_PAGE = 20
"""Whoever writes records chooses the numbers in them."""
_MOST_IMPORTS = 100
_THREADS = 2
LARGEST_JSON = 1 << 20


@dataclass(frozen=True, slots=True)
class Schema:
    """`read` gives a value as JSON, up to so many characters; None where values cannot be read with it."""

    kind: str
    read: Callable[[bytes, int], str] | None
    size: int


@dataclass(frozen=True, slots=True)
class Read:
    """A value that has a schema. `text` is JSON; None where it is not of its schema, or too large."""

    number: int
    kind: str
    text: str | None


class Registry:
    """See the head of this file."""

    def __init__(self, url: str | None) -> None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no address of a registry: it begins with http:// or https://")
        self._url = url
        self._known: dict[int, Schema] = {}
        self._kept = 0
        self._missing_until_s: dict[int, float] = {}
        self._silent_until_s = float("-inf")
        self._asking: dict[int, asyncio.Future[None]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="schemas")
        self.problem = ""
        """Why it did not answer, where it did not the last time."""

    async def wait_until_known(
        self, values: Collection[bytes | None], most: int = ASKED_FOR_A_PAGE, patience_s: float | None = None
    ) -> None:
        """Ask for the schemas of these values that are not there yet, for so many at most. What takes longer than
        `patience_s` goes on: who asks again later has it."""
        if self._url is None:
            return
        now_s = monotonic_s()
        numbers = {number for number in map(schema_number, values) if number is not None}
        new = [one for one in sorted(numbers) if one not in self._known and self._missing_until_s.get(one, 0.0) < now_s]
        for one in new[:most]:
            if one not in self._asking:
                self._asking[one] = asyncio.ensure_future(self._look_up(one))
        if waited := [self._asking[one] for one in new[:most]]:
            done, _ = await asyncio.wait(waited, timeout=patience_s)
            for ended in done:
                ended.result()

    async def _look_up(self, number: int) -> None:
        """In threads of their own: what is slow to be had or to be read by keeps nothing else waiting."""
        try:
            schema = await asyncio.get_running_loop().run_in_executor(self._threads, self._schema, number)
        except urllib.error.HTTPError:
            schema = None
        except (OSError, HTTPException) as problem:
            self._silent_until_s = monotonic_s() + _MISSING_S
            self.problem = str(problem) or type(problem).__name__
            return
        except (ValueError, RecursionError):
            schema = None
        finally:
            del self._asking[number]
        self.problem = ""
        if schema is None:
            while len(self._missing_until_s) >= _MOST_KNOWN:
                self._missing_until_s.pop(next(iter(self._missing_until_s)))
            self._missing_until_s[number] = monotonic_s() + _MISSING_S
            return
        while self._known and (len(self._known) >= _MOST_KNOWN or self._kept + schema.size > _MOST_KEPT):
            self._kept -= self._known.pop(next(iter(self._known))).size
        self._known[number] = schema
        self._kept += schema.size

    def _schema(self, number: int) -> Schema:
        until_s = monotonic_s() + _WAITED_IN_ALL_S
        return schema_of(self._ask(f"/schemas/ids/{number}", until_s), lambda path: self._ask(path, until_s))

    def _ask(self, path: str, until_s: float) -> Any:
        now_s = monotonic_s()
        if self._silent_until_s > now_s or until_s < now_s:  # found out meanwhile, for another number
            raise OSError(self.problem or "the registry does not answer")
        with urllib.request.urlopen(f"{str(self._url).rstrip('/')}{path}", timeout=_WAITED_S) as answer:  # noqa: S310 - http or https
            return json.loads(answer.read(_MOST_BYTES))

    def read(self, data: bytes | None, most: int) -> Read | None:
        """With what is known by now; None for what has no schema that is known."""
        number = schema_number(data) if self._url is not None else None
        schema = None if number is None else self._known.get(number)
        if data is None or number is None or schema is None:
            return None
        if schema.read is None:
            return Read(number, schema.kind, None)
        try:
            return Read(number, schema.kind, schema.read(bytes(opened(data)[1]), most))
        except (ValueError, RecursionError):
            return Read(number, schema.kind, None)


def schema_number(data: bytes | None) -> int | None:
    """The number in front of bytes that a serializer of the registry wrote."""
    try:
        return None if data is None else opened(data)[0]
    except BadFrame:
        return None


def schema_of(said: Any, ask: Callable[[str], Any]) -> Schema:
    """What a registry says of one; `ask` gives its answer for a path. Raises `ValueError` for what is none."""
    if not isinstance(said, dict) or not isinstance(said.get("schema"), str):
        raise ValueError("that is no schema")
    kind, text = str(said.get("schemaType", "AVRO")), said["schema"]
    if kind == "JSON":
        return Schema(kind, _json, len(text))
    if kind == "PROTOBUF":
        imported = _imports(said, ask)
        compiled = protobuf.parsed(text, imported)
        size = len(text) + sum(map(len, imported.values()))
        return Schema(kind, None if compiled is None else lambda data, most: protobuf.read(compiled, data, most), size)
    if kind != "AVRO" or said.get("references"):
        return Schema(kind, None, 0)
    parsed = avro.parsed(text)
    return Schema(kind, None if parsed is None else lambda data, most: _text(avro.read(parsed, data)), len(text))


def _imports(said: dict[str, Any], ask: Callable[[str], Any]) -> dict[str, str]:
    """The texts of all that a schema imports, by the names under which it does; each is asked for once."""
    found: dict[str, str] = {}
    wanted = _references(said)
    while wanted:
        name, path = wanted.pop()
        if name in found:
            continue
        if len(found) == _MOST_IMPORTS:
            raise ValueError(f"it imports more than {_MOST_IMPORTS} schemas")
        imported = ask(path)
        if not isinstance(imported, dict) or not isinstance(imported.get("schema"), str):
            raise ValueError(f"{name} is no schema")
        found[name] = imported["schema"]
        if sum(map(len, found.values())) > protobuf.MOST_TEXT:
            raise ValueError("it imports more than is compiled")
        wanted += _references(imported)
    return found


def _references(said: dict[str, Any]) -> list[tuple[str, str]]:
    """Names, and the paths under which a registry has them."""
    try:
        return [
            (str(one["name"]), f"/subjects/{quote(str(one['subject']), safe='')}/versions/{int(one['version'])}")
            for one in said.get("references") or ()
        ]
    except (TypeError, KeyError) as problem:
        raise ValueError(f"no references: {problem}") from None


def _json(data: bytes, most: int) -> str:
    """As it was written."""
    if len(data) > LARGEST_JSON:
        raise ValueError("too large")
    text = data.decode()
    json.loads(text)
    return text


def _text(found: object) -> str:
    """In the order of its fields; bytes and times, which Avro knows and JSON does not, as texts."""
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), default=_foreign)


def _foreign(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
