"""A message of Protobuf as JSON, piece by piece: it ends where whoever asked has seen enough.

Names are those of the schema, numbers are numbers, bytes are hexadecimal digits. A field that knows whether it was set
is shown where it was. Protobuf's own types for times, for texts and numbers that may be missing and for JSON are shown
as what they stand for, as in its own mapping to JSON.
"""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

_DEEPEST = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class _Enough(Exception):
    """More is not wanted."""


def text_of(message: Any, most: int) -> str:
    """Raises `ValueError` for text that is none, or where it is too deep."""
    writing = _Writing(most)
    with suppress(_Enough):
        writing.message(message, 0)
    return "".join(writing.parts)


class _Writing:
    """The text so far."""

    def __init__(self, most: int) -> None:
        self.parts: list[str] = []
        self._left = most

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _Enough

    def message(self, one: Any, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        name = one.DESCRIPTOR.full_name
        if name in _WRAPPERS:
            self._put(_plain(one.value))
        elif name in _OWN_TEXT:
            self._put(_OWN_TEXT[name](one))
        elif name in _OWN_FORM:
            _OWN_FORM[name](self, one, depth)
        else:
            self._object(self._fields(one, depth))

    def _object(self, members: Iterator[tuple[str, Callable[[], None]]]) -> None:
        self._put("{")
        for number, (name, write) in enumerate(members):
            self._put(f"{',' if number else ''}{json.dumps(name, ensure_ascii=False)}:")
            write()
        self._put("}")

    def _array(self, items: Any, write: Callable[[Any], None]) -> None:
        self._put("[")
        for number, item in enumerate(items):
            if number:
                self._put(",")
            write(item)
        self._put("]")

    def _fields(self, one: Any, depth: int) -> Iterator[tuple[str, Callable[[], None]]]:
        for field in one.DESCRIPTOR.fields:
            if not field.has_presence or one.HasField(field.name):
                yield field.name, partial(self._field, field, getattr(one, field.name), depth)
        for field, value in one.ListFields():
            if field.is_extension:
                yield f"[{field.full_name}]", partial(self._field, field, value, depth)

    def _field(self, field: Any, value: Any, depth: int) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            self._object((_key(key), partial(self._one, of, value[key], depth)) for key in value)
        elif field.is_repeated:
            self._array(value, lambda item: self._one(field, item, depth))
        else:
            self._one(field, value, depth)

    def _one(self, field: Any, value: Any, depth: int) -> None:
        if field.message_type is not None:
            self.message(value, depth + 1)
        elif field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            self._put(_plain(value if known is None else known.name))
        else:
            self._put(_plain(value))

    # Protobuf's own types that hold others.

    def any(self, one: Any, depth: int) -> None:
        """What is in it, where the schema knows that."""
        try:
            kind = one.DESCRIPTOR.file.pool.FindMessageTypeByName(one.type_url.rpartition("/")[2])
            inner = GetMessageClass(kind).FromString(one.value)
        except (KeyError, DecodeError):
            inner = None

        def members() -> Iterator[tuple[str, Callable[[], None]]]:
            yield "@type", partial(self._put, _plain(one.type_url))
            if inner is None:
                yield "value", partial(self._put, _plain(one.value))
            elif _is_own(inner):
                yield "value", partial(self.message, inner, depth + 1)
            else:
                yield from self._fields(inner, depth + 1)

        if depth > _DEEPEST:
            raise ValueError("too deep")
        self._object(members())

    def struct(self, one: Any, depth: int) -> None:
        self._object((key, partial(self.message, one.fields[key], depth + 1)) for key in one.fields)

    def values(self, one: Any, depth: int) -> None:
        self._array(one.values, lambda item: self.message(item, depth + 1))

    def value(self, one: Any, depth: int) -> None:
        kind = one.WhichOneof("kind")
        if kind in ("struct_value", "list_value"):
            self.message(getattr(one, kind), depth + 1)
        else:
            self._put("null" if kind in (None, "null_value") else _plain(getattr(one, kind)))


def _is_own(one: Any) -> bool:
    """Whether it is shown as what it stands for."""
    name = one.DESCRIPTOR.full_name
    return name in _WRAPPERS or name in _OWN_TEXT or name in _OWN_FORM


def _plain(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, bytes):
        return f'"{value.hex()}"'
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value, ensure_ascii=False)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _timestamp(one: Any) -> str:
    try:
        if not 0 <= one.nanos < 1_000_000_000:
            raise OverflowError
        at = (_EPOCH + timedelta(seconds=one.seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return _parts(one)
    return f'"{at}{_fraction(one.nanos)}Z"'


def _duration(one: Any) -> str:
    if abs(one.nanos) >= 1_000_000_000 or one.seconds * one.nanos < 0:
        return _parts(one)
    sign = "-" if one.seconds < 0 or one.nanos < 0 else ""
    return f'"{sign}{abs(one.seconds)}{_fraction(abs(one.nanos))}s"'


def _parts(one: Any) -> str:
    """What is no time."""
    return f'{{"seconds":{one.seconds},"nanos":{one.nanos}}}'


def _fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


_OWN_TEXT: dict[str, Callable[[Any], str]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.FieldMask": lambda one: _plain(",".join(one.paths)),
}
_OWN_FORM: dict[str, Callable[[_Writing, Any, int], None]] = {
    "google.protobuf.Any": _Writing.any,
    "google.protobuf.Struct": _Writing.struct,
    "google.protobuf.ListValue": _Writing.values,
    "google.protobuf.Value": _Writing.value,
}
