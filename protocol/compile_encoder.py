"""Turns a table of fields into the source of a function that writes exactly one version of it.

The counterpart of `compile_decoder`: inlined structs and loops, neighbouring fields of fixed width packed at
once. Records are handed on as the buffers they are; everything between them is gathered in bytearrays.

A field that the version does not carry is not looked at. A tagged field equal to its default is not written.
"""

import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any

from protocol.generated_source import FIXED, SourceWriter, tagged_fields, untagged_fields
from protocol.primitives import MAX_STRING_BYTES, append_uvarint
from protocol.schema import Buffer, FieldSchema, Kind, MessageSchema, Primitive, WrittenOnce, fields_of

UNLIMITED = 1 << 62

Encoder = Callable[..., list[Buffer]]
"""(message, what stands before it, most elements = any) → parts. The given bytearray becomes the first part."""
StepEncoder = Callable[[Any, bytearray, Callable[[], bool]], Generator[None, None, list[Buffer]]]
"""(message, what stands before it, spent) → parts; yields when its time is spent."""


class LargeMessage(Exception):
    """A response of more elements than the caller wants to write at once."""


def large_message() -> LargeMessage:
    return LargeMessage()


def records_size(records: Buffer | Sequence[Buffer]) -> int:
    """The bytes of records, whether in one buffer or in many."""
    if isinstance(records, bytes | bytearray | memoryview):
        return len(records)
    return sum(map(len, records))


def hand_on(parts: list[Buffer], records: Buffer | Sequence[Buffer]) -> None:
    """Put records among the parts, uncopied."""
    if isinstance(records, bytes | bytearray | memoryview):
        parts.append(records)
    else:
        parts.extend(records)


def append_long_length(out: bytearray, length: int, is_string: bool) -> None:
    """The rare case of a compact length that needs more than one byte."""
    if is_string and length > MAX_STRING_BYTES + 1:
        raise ValueError(f"a string of {length - 1} bytes cannot be written")
    append_uvarint(out, length)


def sentence(text: str) -> bytes:
    """An error message, which may name what a client sent: it is cut where the wire has no room for it."""
    encoded = text.encode()
    return encoded if len(encoded) <= MAX_STRING_BYTES else encoded[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def compile_encoder(cls: type, schema: MessageSchema, version: int) -> Encoder:
    """The encoder of one version of a message. Only responses count their elements."""
    return _EncoderWriter(schema, version).compile_message(cls, f"def encode(m, buf, left={UNLIMITED}):")


def compile_step_encoder(cls: type, schema: MessageSchema, version: int) -> StepEncoder:
    """The one that writes in steps: it asks after each element whether its time is spent."""
    return _EncoderWriter(schema, version, in_steps=True).compile_message(cls, "def encode(m, buf, spent):")


class _EncoderWriter:
    """Walks a table and writes what writes it. `buf` gathers, `parts` is the result."""

    def __init__(self, schema: MessageSchema, version: int, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self._counts = schema.kind is Kind.RESPONSE and not in_steps
        self._schema = schema
        self._version = version
        self._flexible = version >= schema.flexible_since
        self._source = SourceWriter()
        self._source.constants.update(
            records_size=records_size, hand_on=hand_on, long_length=append_long_length, uvarint=append_uvarint
        )
        self._source.constants.update(
            pack=struct.pack, large_message=large_message, sentence=sentence, written_once=WrittenOnce
        )
        self._run_format = ""
        self._run_values: list[str] = []

    def compile_message(self, cls: type, signature: str) -> Callable[..., Any]:
        source = self._source
        self._pause()
        source.line("parts = []")
        self._struct(cls, "m")
        source.line("if buf:")
        source.line("    parts.append(buf)")
        source.line("return parts")
        steps = " in steps" if self._in_steps else ""
        return source.compile(signature, f"<{self._schema.name} version {self._version}: encode{steps}>")

    def _pause(self) -> None:
        """A place where others may have their turn."""
        if self._in_steps:
            self._source.line("if spent():")
            self._source.line("    yield")

    # Runs of fixed width.

    def _put(self, format_: str, value: str) -> None:
        """Remember a value of fixed width, to be packed together with its neighbours."""
        self._run_format += format_
        self._run_values.append(value)

    def _flush(self) -> None:
        """Pack what was remembered."""
        if not self._run_values:
            return
        pack = self._source.constant("pack", struct.Struct(">" + self._run_format).pack)
        self._source.line(f"buf += {pack}({', '.join(self._run_values)})")
        self._run_format, self._run_values = "", []

    # Structs and their tag sections.

    def _struct(self, cls: type, owner: str) -> None:
        for field in untagged_fields(cls, self._version, self._flexible):
            self._field(field, f"{owner}.{field.name}")
        self._flush()
        if self._flexible:
            self._tag_section(cls, owner)

    def _tag_section(self, cls: type, owner: str) -> None:
        """Write the tagged fields that differ from their defaults (KIP-482)."""
        source = self._source
        known = tagged_fields(cls, self._version)
        if not known:
            source.line("buf.append(0)")
            return
        flags = [source.fresh(f"has_{field.name}") for field in known]
        for field, flag in zip(known, flags, strict=True):
            source.line(f"{flag} = {self._differs(field, f'{owner}.{field.name}')}")
        source.line(f"if not ({' or '.join(flags)}):")
        source.line("    buf.append(0)")
        source.line("else:")
        source.depth += 1
        source.line(f"uvarint(buf, {' + '.join(flags)})")
        for field, flag in zip(known, flags, strict=True):
            before = source.fresh("before")
            source.line(f"if {flag}:")
            source.depth += 1
            source.line(f"{before} = buf")
            source.line("buf = bytearray()")
            self._field(field, f"{owner}.{field.name}")
            self._flush()
            source.line(f"uvarint({before}, {field.spec.tag})")
            source.line(f"uvarint({before}, len(buf))")
            source.line(f"{before} += buf")
            source.line(f"buf = {before}")
            source.depth -= 1
        source.depth -= 1

    def _differs(self, field: FieldSchema, value: str) -> str:
        """An expression that is True where a value is not the default. Flat structs are compared in place."""
        plain = isinstance(field.element, Primitive)
        if field.is_array or field.default is None or plain:
            return f"{value} != {field.default!r}" if field.default is not None else f"{value} is not None"
        assert isinstance(field.element, type)
        inner = fields_of(field.element)
        if all(isinstance(f.element, Primitive) and not f.is_array for f in inner):
            pairs = [f"{value}.{f.name} != {getattr(field.default, f.name)!r}" for f in inner]
            return f"({' or '.join(pairs)})"
        return f"{value} != {self._source.constant('default', field.default)}"

    # Fields.

    def _field(self, field: FieldSchema, value: str) -> None:
        """Write one field, given as an expression."""
        nullable = field.nullable_in(self._version)
        compact = self._flexible and not field.spec.never_flexible
        if field.is_array:
            self._array(field, value, nullable)
        elif isinstance(field.element, Primitive):
            encoded = f"sentence({value})" if field.name.endswith("error_message") else ""
            self._primitive(field.element, value, nullable, compact, encoded)
        elif nullable:
            # Kafka writes null as 0 in a tagged field, and as -1 elsewhere.
            self._nullable_struct(field.element, value, null=0 if field.tagged_in(self._version) else 0xFF)
        else:
            name = self._source.fresh(field.name)
            self._source.line(f"{name} = {value}")
            self._struct(field.element, name)

    def _nullable_struct(self, cls: type, value: str, *, null: int) -> None:
        """A struct behind one byte that says whether there is one."""
        source = self._source
        name = source.fresh("struct")
        self._flush()
        source.line(f"{name} = {value}")
        source.line(f"if {name} is None:")
        source.line(f"    buf.append({null})")
        source.line("else:")
        source.depth += 1
        source.line("buf.append(1)")
        self._struct(cls, name)
        source.depth -= 1

    def _length(self, length: str, format_: str, compact: bool, is_string: bool) -> None:
        """Write the length in front of something variable; -1 is null."""
        if not compact:
            self._put(format_, length)
            self._flush()
            return
        source = self._source
        self._flush()
        source.line(f"{length} += 1")
        source.line(f"if {length} < 128:")
        source.line(f"    buf.append({length})")
        source.line("else:")
        source.line(f"    long_length(buf, {length}, {is_string})")

    def _primitive(self, wire: Primitive, value: str, nullable: bool, compact: bool, encoded: str = "") -> None:
        if wire.name in FIXED:
            self._put(FIXED[wire.name], value)
            return
        source = self._source
        body, length = source.fresh("body"), source.fresh("n")
        encoded = encoded or (f"{value}.encode()" if wire.name == "string" else value)
        size = f"records_size({body})" if wire.name == "records" else f"len({body})"
        if nullable:
            source.line(f"if {value} is None:")
            source.line(f"    {body} = b''")
            source.line(f"    {length} = -1")
            source.line("else:")
            source.line(f"    {body} = {encoded}")
            source.line(f"    {length} = {size}")
        else:
            source.line(f"{body} = {encoded}")
            source.line(f"{length} = {size}")
        self._length(length, "h" if wire.name == "string" else "i", compact, wire.name == "string")
        if wire.name == "records":
            source.line(f"if {body}:")
            source.line("    parts.append(buf)")
            source.line(f"    hand_on(parts, {body})")
            source.line("    buf = bytearray()")
        else:
            source.line(f"buf += {body}")

    def _array(self, field: FieldSchema, value: str, nullable: bool) -> None:
        source = self._source
        items, length = source.fresh("items"), source.fresh("n")
        source.line(f"{items} = {value}")
        source.line(f"{length} = -1 if {items} is None else len({items})" if nullable else f"{length} = len({items})")
        self._length(length, "i", self._flexible, False)
        source.line(f"if {items}:")
        source.depth += 1
        if self._counts:
            source.line(f"left -= len({items})")
            source.line("if left < 0:")
            source.line("    raise large_message()")
        if isinstance(field.element, Primitive) and field.element.name in FIXED:
            format_ = FIXED[field.element.name]
            source.line(
                f"buf += pack('>' + '{format_}' * len({items}), *{items})"
                if format_ == "16s"
                else f"buf += pack(f'>{{len({items})}}{format_}', *{items})"
            )
        else:
            self._elements(field, items)
        source.depth -= 1

    def _elements(self, field: FieldSchema, items: str) -> None:
        source = self._source
        if field.spec.written_once:
            begin = source.fresh("begin")
            source.line(f"{begin} = -1 if type({items}) is not written_once else len(buf)")
            source.line(f"if {begin} >= 0 and {self._version} in {items}.written:")
            source.line(f"    buf += {items}.written[{self._version}]")
            source.line("else:")
            source.depth += 1
        item = source.fresh("item")
        source.line(f"for {item} in {items}:")
        source.depth += 1
        self._pause()
        if isinstance(field.element, Primitive):
            self._primitive(field.element, item, False, self._flexible)
            self._flush()
        else:
            self._struct(field.element, item)
        source.depth -= 1
        if field.spec.written_once:
            source.line(f"if {begin} >= 0:")
            source.line(f"    {items}.written[{self._version}] = bytes(memoryview(buf)[{begin}:])")
            source.depth -= 1
