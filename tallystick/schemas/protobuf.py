"""Values in Protobuf, read with `protobuf` and `proto-schema-parser` where they are installed.

What a registry hands out is text. It is compiled here: no program is started, and nothing is written.

A message of many fields takes its whole room with the first byte of it. So a few bytes may stand for gigabytes, where a
field is repeated: values are read that are too small for that, by their schema.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tallystick.schemas.wire import message_path

MOST_TEXT = 256 << 10
_MOST_WORDS = 40_000
"""Characters and words of a schema, together with all that it imports; a field has some eight words."""
LARGEST = 1 << 20
_MOST_ROOM = 128 << 20
_SMALLEST_MESSAGE = 2
"""Bytes that a message takes within another one: its field, and that it is empty."""
_OF_A_MESSAGE = 96
"""Bytes of memory that it takes at least, with its place in a list."""
_WIDTHS = {"BOOL": 1, "FLOAT": 4, "INT32": 4, "UINT32": 4, "ENUM": 4, "STRING": 16}
"""Of a field, by its type in C++; of all others, 8."""
_OWN = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
        *("timestamp", "type", "wrappers"),
    )
} | {
    f"google/type/{name}.proto": f"google.type.{name}_pb2"
    for name in ("color", "date", "datetime", "dayofweek", "decimal", "fraction", "interval", "latlng", "money")
}
"""Files that no registry is told of. The second kind comes with a package of its own, where that is installed."""
_CONFLUENT = {
    "confluent/types/decimal.proto": 'syntax = "proto3"; package confluent.type;'
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
}
"""Likewise, of Confluent's serialisers."""
_ANY = "google.protobuf.Any"


@dataclass(frozen=True, slots=True)
class Readable:
    """A schema that values are read with."""

    file: Any
    most_bytes: int
    """Of a value."""


def parsed(text: str, imported: Mapping[str, str]) -> Readable | None:
    """`imported`: texts by the names under which they are imported. None where values are not to be read with it.
    Raises `ValueError` for what is no schema."""
    try:
        from google.protobuf import descriptor_pool

        from tallystick.schemas.proto_text import Reading
    except ImportError:
        return None
    if len(text) + sum(map(len, imported.values())) > MOST_TEXT:
        return None
    name = "the schema itself"
    texts = {**_CONFLUENT, **imported, name: text}
    file_of = Reading(_MOST_WORDS).file_of
    files = {one: file_of(one, texts[one]) for one in (*imported, name)}
    pool = descriptor_pool.DescriptorPool()
    try:
        for one in _in_order(name, files, file_of):
            pool.Add(one)
        file = pool.FindFileByName(name)
        return Readable(file, _most_bytes(file))
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError) as problem:
        raise ValueError(f"no schema of Protobuf: {problem}") from None


def read(readable: Readable, data: bytes, most: int) -> str:
    """As JSON, up to `most` characters and what is begun by then. Raises `ValueError` for what is not of this schema,
    or too large."""
    from google.protobuf.message import DecodeError, Message
    from google.protobuf.message_factory import GetMessageClass

    from tallystick.schemas.proto_values import text_of

    path, encoded = message_path(memoryview(data))
    if len(encoded) > readable.most_bytes:
        raise ValueError("too large")
    try:
        message: Message = GetMessageClass(_named(readable.file, path)).FromString(bytes(encoded))
        return text_of(message, most)
    except (DecodeError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as problem:
        raise ValueError(f"not of this schema: {problem}") from None


def _named(file: Any, path: tuple[int, ...]) -> Any:
    """The message of a path of indexes, from outside in."""
    messages, found = list(file.message_types_by_name.values()), None
    for index in path:
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message {path}")
        found = messages[index]
        messages = list(found.nested_types)
    return found


def _in_order(name: str, files: dict[str, Any], file_of: Any) -> Iterator[Any]:
    """A file behind those that it imports. Raises `ValueError` where one comes to import itself."""
    done: set[str] = set()
    within: list[tuple[str, Iterator[str]]] = []

    def enter(one: str) -> None:
        if any(one == outer for outer, _ in within):
            raise ValueError(f"{one} imports itself")
        files.setdefault(one, _known(one, file_of))
        within.append((one, iter(list(files[one].dependency))))

    enter(name)
    while within:
        one, imports = within[-1]
        following = next((inner for inner in imports if inner not in done), None)
        if following is not None:
            enter(following)
            continue
        within.pop()
        done.add(one)
        yield files[one]


def _known(name: str, file_of: Any) -> Any:
    """A file that no registry has. One that nobody knows is an empty one: whoever wants nothing of it but options, as
    most do, can be read all the same."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in _CONFLUENT:
        return file_of(name, _CONFLUENT[name])
    made = FileDescriptorProto(name=name)
    if name in _OWN:
        try:
            import_module(_OWN[name]).DESCRIPTOR.CopyToProto(made)
        except ImportError:
            return made
    return made


def _most_bytes(file: Any) -> int:
    """So large may a value be, whichever message of the file it is."""
    seen: dict[str, Any] = {}
    wanted = list(file.message_types_by_name.values())
    is_repeated = False
    while wanted:
        one = wanted.pop()
        if one.full_name in seen:
            is_repeated = True  # it may be in itself
            continue
        seen[one.full_name] = one
        is_repeated |= one.full_name == _ANY or any(field.is_repeated and field.message_type for field in one.fields)
        wanted += [field.message_type for field in one.fields if field.message_type is not None]
        wanted += one.nested_types
    if not is_repeated:
        return LARGEST
    widest = max(map(_width, seen.values()), default=0)
    return min(LARGEST, _SMALLEST_MESSAGE * _MOST_ROOM // (widest + _OF_A_MESSAGE))


def _width(message: Any) -> int:
    return sum(8 if field.is_repeated else _width_of(field) for field in message.fields)


def _width_of(field: Any) -> int:
    name = next((name for name in _WIDTHS if field.cpp_type == getattr(field, f"CPPTYPE_{name}")), None)
    return 8 if name is None else _WIDTHS[name]
