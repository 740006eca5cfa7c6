"""A schema of Protobuf, as it is written, as a file descriptor: what `protoc` makes of it, as far as values are read by
it. Options that change no value are left out, and services.

Names of types stay as they were written: whoever builds descriptors looks them up, from inside out.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from proto_schema_parser import Parser, ast
from proto_schema_parser.antlr.ProtobufLexer import ProtobufLexer

_DEEPEST = 32
"""Messages within messages; `protoc` has the same bound."""
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
}
_LABELS = {
    ast.FieldCardinality.REPEATED: _FIELD.LABEL_REPEATED,
    ast.FieldCardinality.REQUIRED: _FIELD.LABEL_REQUIRED,
}
_END_OF_NUMBERS = 1 << 29
_FEATURES = "features."
_OTHER_BASE = re.compile(r"(?<![\w.])0(?:[xX]([0-9a-fA-F]{1,16})|([0-7]{1,22}))(?![\w.])")
"""A number to the base of 16 or 8, which the parser does not read."""
_COMMENTS = (ProtobufLexer.LINE_COMMENT, ProtobufLexer.BLOCK_COMMENT)


class BadText(ValueError):
    """That is no schema of Protobuf."""


class _Refusing(ErrorListener):  # type: ignore[misc]
    """The parser's own way with errors is to print them and to go on."""

    def syntaxError(
        self, recognizer: object, symbol: object, line: int, column: int, message: str, error: object
    ) -> None:
        raise BadText(f"line {line}: {message}")


class Reading:
    """Of a schema and all that it imports: no more than so many words, for each takes its time."""

    def __init__(self, most_words: int) -> None:
        self._left = most_words

    def file_of(self, name: str, text: str) -> Any:
        """The `FileDescriptorProto`. Raises `BadText`."""
        said = _serialised(text) or _Written(text, self._watch).file
        said.name = name
        return said

    def _watch(self, lexer: Any) -> None:
        """Comments may stand where this grammar has none."""
        _strict(lexer)
        following = lexer.nextToken

        def token() -> Any:
            while True:
                self._left -= 1
                if self._left < 0:
                    raise BadText("it is too long")
                found = following()
                if found.type not in _COMMENTS:
                    return found

        lexer.nextToken = token


def _decimal(found: "re.Match[str]") -> str:
    return str(int(found[1], 16) if found[1] else int(found[2], 8))


def _serialised(text: str) -> Any:
    """Python's serialiser registers a file descriptor in base64, and there are registries that hand it out again."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _strict(reading: Any) -> None:
    reading.removeErrorListeners()
    reading.addErrorListener(_Refusing())


class _Written:
    """One file, as it is written."""

    def __init__(self, text: str, watch: Callable[[Any], None]) -> None:
        try:
            parsed = Parser(setup_lexer=watch, setup_parser=_strict).parse(_OTHER_BASE.sub(_decimal, text))
            self.file = descriptor_pb2.FileDescriptorProto(syntax=parsed.syntax or "proto2")
            self._is_proto3 = parsed.syntax == "proto3"
            if parsed.edition is not None:
                self.file.syntax = "editions"
                self.file.edition = descriptor_pb2.Edition.Value(f"EDITION_{parsed.edition}")
            for one in parsed.file_elements:
                self._take(one)
        except BadText:
            raise
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as problem:
            raise BadText(f"no schema of Protobuf: {type(problem).__name__}: {problem}") from None

    def _take(self, one: Any) -> None:
        file = self.file
        match one:
            case ast.Package():
                file.package = one.name
            case ast.Import():
                if one.public:
                    file.public_dependency.append(len(file.dependency))
                file.dependency.append(one.name)
            case ast.Option():
                _features(file.options, [one])
            case ast.Message():
                self._message(file.message_type.add(), one.name, one.elements, 1)
            case ast.Enum():
                _enum(file.enum_type.add(), one)
            case ast.Extension():
                self._extend(file.extension, file.message_type, one, 1)

    def _message(self, made: Any, name: str, elements: Iterable[Any], depth: int) -> None:
        if depth > _DEEPEST:
            raise BadText(f"{name} lies more than {_DEEPEST} messages deep")
        made.name = name
        for one in elements:
            match one:
                case ast.Field():
                    self._field(made.field.add(), one)
                case ast.MapField():
                    self._map(made, one)
                case ast.OneOf():
                    self._one_of(made, one, depth)
                case ast.ExtensionRange():
                    for start, end in map(_range, one.ranges):
                        made.extension_range.add(start=start, end=end)
                case ast.Option():
                    _features(made.options, [one])
                case _:
                    self._nested(made, one, depth)
        for field in made.field:  # their oneofs come behind those that were written
            if field.proto3_optional:
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")

    def _nested(self, made: Any, one: Any, depth: int) -> None:
        match one:
            case ast.Message():
                self._message(made.nested_type.add(), one.name, one.elements, depth + 1)
            case ast.Group():
                self._group(made.field.add(), made.nested_type, one, depth)
            case ast.Enum():
                _enum(made.enum_type.add(), one)
            case ast.Extension():
                self._extend(made.extension, made.nested_type, one, depth)

    def _field(self, made: Any, one: Any) -> None:
        made.name, made.number = one.name, one.number
        made.proto3_optional = self._is_proto3 and one.cardinality is ast.FieldCardinality.OPTIONAL
        made.label = _LABELS.get(one.cardinality, _FIELD.LABEL_OPTIONAL)
        _type(made, one.type)
        _features(made.options, one.options)

    def _group(self, made: Any, nested: Any, one: Any, depth: int) -> None:
        made.name, made.number, made.type_name = one.name.lower(), one.number, one.name
        made.label = _LABELS.get(one.cardinality, _FIELD.LABEL_OPTIONAL)
        made.type = _FIELD.TYPE_GROUP
        self._message(nested.add(), one.name, one.elements, depth + 1)

    def _one_of(self, made: Any, one: Any, depth: int) -> None:
        index = len(made.oneof_decl)
        made.oneof_decl.add(name=one.name)
        for inner in one.elements:
            if isinstance(inner, ast.Field | ast.Group):
                field = made.field.add()
                if isinstance(inner, ast.Field):
                    self._field(field, inner)
                else:
                    self._group(field, made.nested_type, inner, depth)
                field.oneof_index = index

    def _map(self, made: Any, one: Any) -> None:
        """A map is a repeated message of a key and a value; the message is named as `protoc` names it."""
        entry = made.nested_type.add(name="".join(_capitals(one.name)) + "Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", one.key_type), ("value", one.value_type)), 1):
            _type(entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL), kind)
        label = _FIELD.LABEL_REPEATED
        made.field.add(name=one.name, number=one.number, label=label, type_name=entry.name, type=_FIELD.TYPE_MESSAGE)

    def _extend(self, made: Any, nested: Any, one: Any, depth: int) -> None:
        for inner in one.elements:
            if isinstance(inner, ast.Field | ast.Group):
                field = made.add()
                if isinstance(inner, ast.Field):
                    self._field(field, inner)
                else:
                    self._group(field, nested, inner, depth)
                field.extendee = one.typeName


def _type(made: Any, name: str) -> None:
    """Whether a name is that of a message or of an enum is found out where it is looked up."""
    if name in _SCALARS:
        made.type = _SCALARS[name]
    else:
        made.type_name = name


def _enum(made: Any, one: Any) -> None:
    made.name = one.name
    for inner in one.elements:
        if isinstance(inner, ast.EnumValue):
            made.value.add(name=inner.name, number=inner.number)
        elif isinstance(inner, ast.Option):
            _features(made.options, [inner])
            if inner.name == "allow_alias":
                made.options.allow_alias = inner.value is True


def _features(options: Any, written: Iterable[Any]) -> None:
    """Of editions: what syntaxes had decided for a whole file."""
    for one in written:
        if one.name.startswith(_FEATURES) and isinstance(one.value, ast.Identifier):
            name = one.name.removeprefix(_FEATURES)
            kind = options.features.DESCRIPTOR.fields_by_name[name].enum_type
            setattr(options.features, name, kind.values_by_name[one.value.name].number)


def _range(written: str) -> tuple[int, int]:
    """`4`, `4 to 6` or `4 to max`, the end not included."""
    first, _, last = (part.strip() for part in written.partition("to"))
    end = int(first) if not last else _END_OF_NUMBERS - 1 if last == "max" else int(last)
    return int(first), end + 1


def _capitals(name: str) -> Iterator[str]:
    for part in name.split("_"):
        yield part[:1].upper() + part[1:]
