"""Turns a table of fields into the source of a function that reads exactly one version of it.

Made for a hot path: nested structs and loops are inlined, neighbouring fields of fixed width (and the
length that follows them) are unpacked by one `struct.Struct`, records stay a slice of the frame.

Rules of the generated code:
Rule 1. Every length is checked against what is left before anything is allocated or sliced.
Rule 2. Running over the end elsewhere shows as `struct.error` or `IndexError`, which `codec.decode`
        turns into `ProtocolError`.
Rule 3. A request has at most so many elements in all its arrays, and so many tagged fields: a frame of 100 MB full of
        empty ones would become gigabytes of objects.
Rule 4. There are two functions for each version. One reads at once, and up to a number of elements; the other reads in
        steps, and asks after each element whether its time is `spent`.
Rule 5. A field the version does not carry gets the default of its dataclass, by not being named.
"""

import struct
from collections.abc import Callable, Generator
from typing import Any

from protocol.errors import ProtocolError
from protocol.generated_source import (
    FIXED,
    SourceWriter,
    smallest_element_size,
    tagged_fields,
    untagged_fields,
)
from protocol.primitives import MAX_STRING_BYTES, read_uvarint
from protocol.schema import FieldSchema, Kind, MessageSchema, Primitive

MOST_ELEMENTS = 100_000
"""In one request, all arrays together; a decoded one weighs some 50 to 150 bytes, and its answer about the same."""

Decoder = Callable[[memoryview, int, int, int], tuple[Any, int, int]]
"""(view, offset, limit, most elements) → (message, offset behind it, how many elements more it might have had)."""
StepDecoder = Callable[[memoryview, int, int, int, Callable[[], bool]], Generator[None, None, tuple[Any, int, int]]]
"""The same with `spent` behind; yields when it says so."""


class TooManyElements(ProtocolError):
    """More elements than the caller takes."""


def bad_length(name: str, length: int) -> ProtocolError:
    """A length that is negative, null where null is not allowed, or more than what is left."""
    return ProtocolError(f"{name}: null is not allowed" if length == -1 else f"{name}: impossible length {length}")


def too_many_elements() -> ProtocolError:
    return TooManyElements(f"a request with more than {MOST_ELEMENTS} elements in its arrays")


def compile_decoder(cls: type, schema: MessageSchema, version: int) -> Decoder:
    """The decoder of one version of a message."""
    return _DecoderWriter(schema, version).compile_message(cls, "def decode(view, o, limit, left):")


def compile_step_decoder(cls: type, schema: MessageSchema, version: int) -> StepDecoder:
    """The one that reads in steps."""
    return _DecoderWriter(schema, version, in_steps=True).compile_message(
        cls, "def decode(view, o, limit, left, spent):"
    )


class _DecoderWriter:
    """Walks a table and writes what reads it. `view`, `o` (offset) and `limit` are the names it lives by."""

    def __init__(self, schema: MessageSchema, version: int, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self._schema = schema
        self._version = version
        self._flexible = version >= schema.flexible_since
        self._source = SourceWriter()
        self._source.constants.update(bad_length=bad_length, uvarint=read_uvarint, ProtocolError=ProtocolError)
        self._source.constants.update(unpack=struct.unpack_from, too_many_elements=too_many_elements)
        self._bounded = schema.kind is Kind.REQUEST
        self._run_format = ""
        self._run_names: list[str] = []

    def compile_message(self, cls: type, signature: str) -> Callable[..., Any]:
        self._pause()
        made = self._struct(cls)
        self._source.line(f"return {made}, o, left")
        filename = f"<{self._schema.name} version {self._version}: decode{' in steps' * self._in_steps}>"
        return self._source.compile(signature, filename)

    def _pause(self) -> None:
        """A place where others may have their turn."""
        if self._in_steps:
            self._source.line("if spent():")
            self._source.line("    yield")

    # Runs of fixed width.

    def _take(self, format_: str, name: str) -> None:
        """Remember a value of fixed width, to be unpacked together with its neighbours."""
        self._run_format += format_
        self._run_names.append(name)

    def _flush(self) -> None:
        """Unpack what was remembered."""
        if not self._run_names:
            return
        packed = struct.Struct(">" + self._run_format)
        unpack = self._source.constant("unpack", packed.unpack_from)
        self._source.line(f"{', '.join(self._run_names)}{',' if len(self._run_names) == 1 else ''} = {unpack}(view, o)")
        self._source.line(f"o += {packed.size}")
        self._run_format, self._run_names = "", []

    # Structs and their tag sections.

    def _struct(self, cls: type) -> str:
        """Read a struct's fields; returns the expression that makes the object."""
        values: list[str] = []
        for field in untagged_fields(cls, self._version, self._flexible):
            name = self._source.fresh(field.name)
            self._field(field, name, f"{cls.__name__}.{field.name}")
            values.append(f"{field.name}={name}")
        self._flush()
        if self._flexible:
            values += self._tag_section(cls)
        return f"{self._source.class_name(cls)}({', '.join(values)})"

    def _tag_section(self, cls: type) -> list[str]:
        """Read tagged fields (KIP-482): known ones are kept, unknown ones skipped, the order must ascend."""
        source = self._source
        known = [(field, source.fresh(field.name)) for field in tagged_fields(cls, self._version)]
        for field, name in known:
            source.line(f"{name} = {self._default(field)}")
        count, last, tag, end = (source.fresh(stem) for stem in ("count", "last", "tag", "end"))
        source.line(f"{count} = view[o]")
        source.line("o += 1")
        source.line(f"if {count}:")
        source.depth += 1
        source.line(f"{count}, o = uvarint(view, o - 1)")
        self._count(count)
        source.line(f"{last} = -1")
        source.line(f"for _ in range({count}):")
        source.depth += 1
        self._pause()
        source.line(f"{tag}, o = uvarint(view, o)")
        source.line(f"{end}, o = uvarint(view, o)")
        source.line(f"{end} += o")
        source.line(f"if {tag} <= {last} or {end} > limit:")
        source.line(f"    raise ProtocolError('{cls.__name__}: tagged fields out of order or too long')")
        source.line(f"{last} = {tag}")
        for field, name in known:
            source.line(f"if {tag} == {field.spec.tag}:")
            source.depth += 1
            self._field(field, name, f"{cls.__name__}.{field.name}")
            self._flush()
            source.line(f"if o != {end}:")
            source.line(f"    raise ProtocolError('{cls.__name__}.{field.name}: a tagged field of another size')")
            source.depth -= 1
        source.line(f"o = {end}")
        source.depth -= 2
        return [f"{field.name}={name}" for field, name in known]

    def _default(self, field: FieldSchema) -> str:
        """The default as an expression that makes a new object where it is mutable."""
        if field.is_array:
            return "None" if field.default is None else "[]"
        if isinstance(field.element, Primitive) or field.default is None:
            return repr(field.default)
        return f"{self._source.class_name(field.element)}()"

    # Fields.

    def _field(self, field: FieldSchema, name: str, path: str) -> None:
        """Read one field into the variable `name`."""
        nullable = field.nullable_in(self._version)
        compact = self._flexible and not field.spec.never_flexible
        if field.is_array:
            self._array(field, name, path, nullable)
        elif isinstance(field.element, Primitive):
            self._primitive(field.element, name, path, nullable, compact)
        elif nullable:
            self._nullable_struct(field.element, name, null=0 if field.tagged_in(self._version) else -1)
        else:
            self._source.line(f"{name} = {self._struct(field.element)}")

    def _nullable_struct(self, cls: type, name: str, *, null: int) -> None:
        """A struct behind one byte that says whether there is one."""
        source = self._source
        there = source.fresh("there")
        self._take("b", there)
        self._flush()
        source.line(f"if {there} <= {null}:")
        source.line(f"    {name} = None")
        source.line("else:")
        source.depth += 1
        source.line(f"{name} = {self._struct(cls)}")
        source.depth -= 1

    def _length(self, format_: str, compact: bool) -> str:
        """Read the length in front of something variable; -1 is null."""
        source = self._source
        length = source.fresh("n")
        if not compact:
            self._take(format_, length)
            self._flush()
            return length
        self._flush()
        source.line(f"{length} = view[o]")
        source.line("o += 1")
        source.line(f"if {length} > 127:")
        source.line(f"    {length}, o = uvarint(view, o - 1)")
        source.line(f"{length} -= 1")
        return length

    def _primitive(self, wire: Primitive, name: str, path: str, nullable: bool, compact: bool) -> None:
        if wire.name in FIXED:
            self._take(FIXED[wire.name], name)
            return
        source = self._source
        length = self._length("h" if wire.name == "string" else "i", compact)
        if nullable:
            source.line(f"if {length} == -1:")
            source.line(f"    {name} = None")
            source.line("else:")
            source.depth += 1
        end = source.fresh("end")
        source.line(f"{end} = o + {length}")
        bound = f"0 <= {length} <= {MAX_STRING_BYTES}" if wire.name == "string" else f"0 <= {length}"
        source.line(f"if not ({bound} and {end} <= limit):")
        source.line(f"    raise bad_length('{path}', {length})")
        sliced = f"view[o:{end}]"
        source.line(
            name
            + " = "
            + {"string": f"str({sliced}, 'utf-8')", "bytes": f"bytes({sliced})", "records": sliced}[wire.name]
        )
        source.line(f"o = {end}")
        if nullable:
            source.depth -= 1

    def _array(self, field: FieldSchema, name: str, path: str, nullable: bool) -> None:
        source = self._source
        length = self._length("i", self._flexible)
        if nullable:
            source.line(f"if {length} == -1:")
            source.line(f"    {name} = None")
            source.line("else:")
            source.depth += 1
        size = smallest_element_size(field, self._version, self._flexible)
        source.line(f"if not 0 <= {length} * {size} <= limit - o:")
        source.line(f"    raise bad_length('{path}', {length})")
        self._count(length)
        if isinstance(field.element, Primitive) and field.element.name in FIXED:
            source.line(
                f"{name} = list(unpack(f'>{{{length}}}{FIXED[field.element.name]}', view, o))"
                if field.element.name != "uuid"
                else f"{name} = [bytes(view[i:i + 16]) for i in range(o, o + 16 * {length}, 16)]"
            )
            source.line(f"o += {length} * {size}")
        else:
            self._elements(field.element, name, length, path)
        if nullable:
            source.depth -= 1

    def _count(self, length: str) -> None:
        """Take so many elements from what a request may have."""
        if self._bounded:
            self._source.line(f"left -= {length}")
            self._source.line("if left < 0:")
            self._source.line("    raise too_many_elements()")

    def _elements(self, element: Primitive | type, name: str, length: str, path: str) -> None:
        """The loop over the elements of an array that are not all of one fixed width."""
        source = self._source
        source.line(f"{name} = []")
        source.line(f"for _ in range({length}):")
        source.depth += 1
        self._pause()
        if isinstance(element, Primitive):
            item = source.fresh("item")
            self._primitive(element, item, path, False, self._flexible)
            self._flush()
        else:
            item = self._struct(element)
        source.line(f"{name}.append({item})")
        source.depth -= 1
