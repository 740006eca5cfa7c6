"""The language in which messages are written down: tables of fields, in wire order.

One class describes a message for all its versions. A field says from which version on it exists
(`since`), until which (`until`), whether it may be null, and its default where a version does not
carry it. `protocol.codec` compiles a table to specialised Python, once per (message, version).

This file only describes. It neither encodes nor decodes, and knows nothing of a particular message.
The same language declares what travels (requests, responses) and what coordinators write to disk.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")
C = TypeVar("C", bound=type)

INT16_MAX = 32767
NEVER = INT16_MAX
"""A version no message reaches: "not flexible in any version", "never nullable"."""
OWN_TAG = 10_000
"""The number of a tagged field (KIP-482) that Kafka's message does not have: far above Kafka's, which counts its own up
from 0, and passes over tags that it does not know."""


@dataclasses.dataclass(frozen=True, slots=True)
class Primitive:
    """The wire type of a field; the Python type beside it in `Annotated` is what a reader sees."""

    name: str
    zero: object
    """Kafka's default when a table names none."""


Bool = Annotated[bool, Primitive("bool", False)]
Int8 = Annotated[int, Primitive("int8", 0)]
Int16 = Annotated[int, Primitive("int16", 0)]
Int32 = Annotated[int, Primitive("int32", 0)]
Int64 = Annotated[int, Primitive("int64", 0)]
Uint16 = Annotated[int, Primitive("uint16", 0)]
Float64 = Annotated[float, Primitive("float64", 0.0)]
String = Annotated[str, Primitive("string", "")]
Bytes = Annotated[bytes, Primitive("bytes", b"")]
Uuid = Annotated[bytes, Primitive("uuid", bytes(16))]
"""Sixteen raw bytes: cheap to decode, to hash and to compare."""
Buffer = bytes | bytearray | memoryview
Records = Annotated[Buffer | Sequence[Buffer], Primitive("records", b"")]
"""Record batches, opaque. Decoding yields one `memoryview` of the frame (no copy); encoding also
takes a sequence of buffers, which are handed to the transport as they are (no copy)."""


class Kind(Enum):
    """What a table describes, which decides how a version is put around it."""

    REQUEST = "request"
    RESPONSE = "response"
    HEADER = "header"
    DATA = "data"
    """A record or part of one that is written to a log: nothing is put around it."""


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSpec:
    """The versions given to `field`."""

    since: int
    until: int
    nullable_since: int
    nullable_until: int
    tag: int | None
    tag_since: int
    never_flexible: bool
    written_once: bool = False


class WrittenOnce(list[T]):
    """An array that many messages have in common, and that is not changed any more. `written` keeps, by version, what
    an encoder made of it."""

    __slots__ = ("__weakref__", "written")

    def __init__(self, elements: Iterable[T] = ()) -> None:
        super().__init__(elements)
        self.written: dict[int, bytes] = {}


_REQUIRED: Any = object()
_LATER: Any = object()


class DeclaredField(typing.NamedTuple):
    """The arguments of `field`, kept until the schema is read."""

    spec: FieldSpec
    default: Any
    default_factory: Callable[[], Any] | None


@overload
def field(
    *,
    since: int = ...,
    until: int = ...,
    nullable_since: int = ...,
    nullable_until: int = ...,
    tag: int | None = ...,
    tag_since: int | None = ...,
    never_flexible: bool = ...,
    written_once: bool = ...,
) -> Any: ...
@overload
def field(
    *,
    default: T,
    since: int = ...,
    until: int = ...,
    nullable_since: int = ...,
    nullable_until: int = ...,
    tag: int | None = ...,
    tag_since: int | None = ...,
    never_flexible: bool = ...,
    written_once: bool = ...,
) -> T: ...
@overload
def field(
    *,
    default_factory: Callable[[], T],
    since: int = ...,
    until: int = ...,
    nullable_since: int = ...,
    nullable_until: int = ...,
    tag: int | None = ...,
    tag_since: int | None = ...,
    never_flexible: bool = ...,
    written_once: bool = ...,
) -> T: ...
def field(
    *,
    since: int = 0,
    until: int = NEVER,
    nullable_since: int = NEVER,
    nullable_until: int = NEVER,
    tag: int | None = None,
    tag_since: int | None = None,
    never_flexible: bool = False,
    written_once: bool = False,
    default: Any = _REQUIRED,
    default_factory: Any = None,
) -> Any:
    """One field that is not simply "there in every version".

    `since`..`until` are the versions that carry it; `nullable_since` the first that may carry null;
    `tag` its number where it is a tagged field (KIP-482), from version `tag_since` on;
    `never_flexible` keeps the old string length in flexible versions (the request header's client id);
    `written_once` where an array of it may be a `WrittenOnce`.
    """
    first_tagged = since if tag_since is None else tag_since
    spec = FieldSpec(since, until, nullable_since, nullable_until, tag, first_tagged, never_flexible, written_once)
    return DeclaredField(spec, default, default_factory)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of a table. `element` is a `Primitive` or the nested struct's class."""

    name: str
    element: Primitive | type
    is_array: bool
    default: object
    spec: FieldSpec

    def in_version(self, version: int) -> bool:
        """Whether this version carries the field at all (tagged or not)."""
        return self.spec.since <= version <= self.spec.until

    def nullable_in(self, version: int) -> bool:
        """Whether null is a legal value in this version."""
        return self.spec.nullable_since <= version <= self.spec.nullable_until

    def tagged_in(self, version: int) -> bool:
        """Whether this version carries the field among its tagged fields."""
        return self.spec.tag is not None and version >= self.spec.tag_since


@dataclasses.dataclass(frozen=True, slots=True)
class MessageSchema:
    """A whole table. `flexible_since` is the first version with compact types and tag sections (KIP-482)."""

    name: str
    kind: Kind
    api_key: int
    versions: range
    flexible_since: int
    fields: tuple[FieldSchema, ...]


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(*, kind: Kind, versions: range, flexible: int = NEVER, api_key: int = -1) -> Callable[[C], C]:
    """Declare a top-level message. `versions` are all that the codec can read and write, which may be
    more than a handler serves."""

    def declare(cls: C) -> C:
        made: Any = _table(cls)
        made.__wire__ = (kind, api_key, versions, flexible)
        return cast(C, made)

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: C) -> C:
    """Declare a struct that occurs inside messages; it takes version and flexibility from the outermost."""
    return _table(cls)


def _table(cls: C) -> C:
    """What a dataclass with slots and keywords would be, made quickly: there are hundreds, and a broker is to start in
    a moment. All share what dataclasses would write and compile for each; `__init__` is compiled when it is needed."""
    members = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    declared = {name: members.pop(name, _REQUIRED) for name in cls.__annotations__}
    members |= {"__slots__": tuple(declared), "__fields__": declared, "__qualname__": cls.__qualname__}
    members |= {"__init__": _first_init, "__eq__": _equal, "__repr__": _described, "__hash__": None}
    return cast(C, type(cls.__name__, cls.__bases__, members))


def _first_init(self: Any, **values: object) -> None:
    """Stands in for `__init__` until the first of its class is made."""
    cls: Any = type(self)
    cls.__init__ = _compiled_init(cls)
    cls.__init__(self, **values)


def _compiled_init(cls: Any) -> Callable[..., None]:
    parameters, lines, constants = [], ["pass"], dict[str, object](_later=_LATER)
    for name, declared in cls.__fields__.items():
        value = name
        if isinstance(declared, DeclaredField) and declared.default_factory is not None:
            parameters.append(f"{name}=_later")
            constants[f"_make_{name}"] = declared.default_factory
            value = f"_make_{name}() if {name} is _later else {name}"
        elif (default := _default_of(declared)) is _REQUIRED:
            parameters.append(name)
        else:
            parameters.append(f"{name}=_default_{name}")
            constants[f"_default_{name}"] = default
        lines.append(f"self.{name} = {value}")
    star = ["*"] if parameters else []
    head = f"def __init__({', '.join(['self', *star, *parameters])}):"
    exec("\n ".join([head, *lines]), constants)  # noqa: S102  made of our own tables
    return cast(Callable[..., None], constants["__init__"])


def _default_of(declared: object) -> object:
    return declared.default if isinstance(declared, DeclaredField) else declared


def _equal(self: Any, other: object) -> bool:
    same = type(other) is type(self)
    return same and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _described(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({fields})"


_schemas: dict[type, MessageSchema] = {}


def schema_of(cls: type) -> MessageSchema:
    """Read the table behind a class made with `message`; once."""
    found = _schemas.get(cls)
    if found is None:
        found = _schemas[cls] = _read_schema(cls)
    return found


def _read_schema(cls: type) -> MessageSchema:
    kind, api_key, versions, flexible = cls.__wire__  # type: ignore[attr-defined]
    return MessageSchema(cls.__name__, kind, api_key, versions, flexible, fields_of(cls))


def fields_of(cls: type) -> tuple[FieldSchema, ...]:
    """The fields of a message or struct, in wire order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    declared: dict[str, object] = cls.__fields__  # type: ignore[attr-defined]
    return tuple(_field_schema(name, value, hints[name]) for name, value in declared.items())


_PLAIN = FieldSpec(0, NEVER, NEVER, NEVER, None, 0, False)


def _field_schema(name: str, declared: object, hint: Any) -> FieldSchema:
    spec = declared.spec if isinstance(declared, DeclaredField) else _PLAIN
    hint = _without_none(hint)
    is_array = typing.get_origin(hint) is list
    if is_array:
        (hint,) = typing.get_args(hint)
    element = hint.__metadata__[0] if typing.get_origin(hint) is Annotated else hint
    if isinstance(declared, DeclaredField) and declared.default_factory is not None:
        default = declared.default_factory()
    elif (default := _default_of(declared)) is _REQUIRED:
        default = [] if is_array else element.zero if isinstance(element, Primitive) else None
    return FieldSchema(name, element, is_array, default, spec)


def _without_none(hint: Any) -> Any:
    """`X | None` → `X`; null is decided by the spec, the hint only serves the type checker."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        return parts[0] if len(parts) == 1 else hint
    return hint
