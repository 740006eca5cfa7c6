"""What both compilers of messages share: writing Python source, and making a function of it.

The source of a compiled message is kept in `linecache`, so that a traceback shows the line.
"""

import linecache
import struct
from collections.abc import Callable
from typing import Any

from protocol.schema import FieldSchema, Primitive, fields_of

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""Wire types of fixed width, as `struct` calls them."""


class SourceWriter:
    """Lines of one function, fresh names, and the constants it refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.depth = 1
        self._taken = 0
        self._classes: dict[type, str] = {}

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A name that nothing else in this function has."""
        self._taken += 1
        return f"{stem}_{self._taken}"

    def constant(self, stem: str, value: object) -> str:
        """Make `value` known to the function under a new name."""
        name = self.fresh(stem)
        self.constants[name] = value
        return name

    def class_name(self, cls: type) -> str:
        """The name under which the function knows a class. Two classes may share their own name."""
        if cls not in self._classes:
            self._classes[cls] = self.constant(cls.__name__, cls)
        return self._classes[cls]

    def compile(self, signature: str, filename: str) -> Callable[..., Any]:
        """Make the function."""
        source = signature + "\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.constants)
        # The source is made from our own tables only; nothing that came over a network is in it.
        exec(compile(source, filename, "exec"), namespace)  # noqa: S102
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        made: Callable[..., Any] = namespace[signature[4 : signature.index("(")]]
        return made


def smallest_size(field: FieldSchema, version: int, flexible: bool) -> int:
    """The fewest bytes in which a field that this version carries untagged can be written."""
    compact = flexible and not field.spec.never_flexible
    if field.is_array:
        return 1 if compact else 4
    if isinstance(field.element, Primitive):
        format_ = FIXED.get(field.element.name)
        if format_ is not None:
            return struct.calcsize(">" + format_)
        if compact:
            return 1
        return 2 if field.element.name == "string" else 4
    if field.nullable_in(version):
        return 1
    return smallest_struct_size(field.element, version, flexible)


def smallest_element_size(field: FieldSchema, version: int, flexible: bool) -> int:
    """The fewest bytes of one element of an array: what bounds a believable array length."""
    if isinstance(field.element, type):
        return max(1, smallest_struct_size(field.element, version, flexible))
    format_ = FIXED.get(field.element.name)
    if format_ is not None:
        return struct.calcsize(">" + format_)
    return 1 if flexible else 2


def smallest_struct_size(cls: type, version: int, flexible: bool) -> int:
    """The fewest bytes in which a struct can be written."""
    fields = untagged_fields(cls, version, flexible)
    return sum(smallest_size(field, version, flexible) for field in fields) + (1 if flexible else 0)


def untagged_fields(cls: type, version: int, flexible: bool) -> list[FieldSchema]:
    """The fields that a version writes one after the other."""
    return [f for f in fields_of(cls) if f.in_version(version) and not (flexible and f.tagged_in(version))]


def tagged_fields(cls: type, version: int) -> list[FieldSchema]:
    """The fields that a flexible version may write into the tag section, in the order of their tags."""
    found = [f for f in fields_of(cls) if f.in_version(version) and f.tagged_in(version)]
    return sorted(found, key=lambda f: f.spec.tag or 0)
