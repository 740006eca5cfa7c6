"""Protobuf, through its own library: classes are made from the file descriptors that the registry hands out.

A value is read with the reader's message whatever schema it was written with: that is how Protobuf evolves. Only the
name of the message is compared.
"""

import base64
import binascii
from datetime import UTC
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from spark_connector.formats.errors import CannotDecode, NoSuchType
from spark_connector.formats.registry import Registry, Schema
from spark_connector.formats.shapes import struct
from tallystick.schemas.wire import message_path

_TYPES = {
    FieldDescriptor.CPPTYPE_BOOL: "BOOLEAN",
    FieldDescriptor.CPPTYPE_INT32: "INT",
    FieldDescriptor.CPPTYPE_INT64: "BIGINT",
    FieldDescriptor.CPPTYPE_UINT32: "BIGINT",
    FieldDescriptor.CPPTYPE_UINT64: "DECIMAL(20, 0)",
    FieldDescriptor.CPPTYPE_FLOAT: "FLOAT",
    FieldDescriptor.CPPTYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.CPPTYPE_ENUM: "STRING",
    FieldDescriptor.CPPTYPE_STRING: "STRING",
}
_TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufReader:
    """`message` is the full name of the one that is read; the first of the file if there is none."""

    def __init__(self, schema: Schema, registry: Registry, message: str | None = None) -> None:
        self._registry = registry
        file = _file(schema)
        self._message = _first(file) if message is None else _named(file, message)
        self._class = message_factory.GetMessageClass(self._message)
        self._files = {schema.id: file}
        self._known: set[tuple[int, tuple[int, ...]]] = set()

    def ddl(self) -> str:
        """Raises `NoSuchType`."""
        return _ddl(self._message, ())

    def read(self, schema_id: int, payload: memoryview) -> Any:
        """Raises `CannotDecode`."""
        path, encoded = message_path(payload)
        if (schema_id, path) not in self._known:
            self._compare(schema_id, path)
        value = self._class()
        try:
            value.ParseFromString(bytes(encoded))
        except DecodeError as error:
            raise CannotDecode(f"not Protobuf of {self._message.full_name}: {error}") from error
        return _plain(value)

    def _compare(self, schema_id: int, path: tuple[int, ...]) -> None:
        if schema_id not in self._files:
            self._files[schema_id] = _file(self._registry.by_id(schema_id))
        messages = list(self._files[schema_id].message_types_by_name.values())
        found: Descriptor | None = None
        for index in path:
            if not 0 <= index < len(messages):
                raise CannotDecode(f"schema {schema_id} has no message {path}")
            found = messages[index]
            messages = list(found.nested_types)
        assert found is not None, "a path has a step"
        if found.full_name != self._message.full_name:
            raise CannotDecode(f"a {found.full_name}, where {self._message.full_name} is read")
        self._known.add((schema_id, path))


def _file(schema: Schema) -> FileDescriptor:
    pool = descriptor_pool.DescriptorPool()
    name = f"schema-{schema.id}.proto"
    for imported, text in (*((name, one.text) for name, one in schema.references), (name, schema.text)):
        try:
            read = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError, DecodeError) as error:
            raise NoSuchType(
                f"the registry gives schema {schema.id} as text: Protobuf needs one that knows format=serialized"
            ) from error
        read.name = imported
        for dependency in read.dependency:
            _well_known(pool, dependency)
        pool.Add(read)
    return pool.FindFileByName(name)


def _well_known(pool: descriptor_pool.DescriptorPool, name: str) -> None:
    """Protobuf's own files are in no registry."""
    if name.startswith("google/protobuf/"):
        own = descriptor_pb2.FileDescriptorProto()
        own_pool = descriptor_pool.Default()
        try:
            own_pool.FindFileByName(name).CopyToProto(own)
        except KeyError:
            module = __import__(f"google.protobuf.{name.split('/')[-1][:-6]}_pb2", fromlist=["DESCRIPTOR"])
            module.DESCRIPTOR.CopyToProto(own)
        for dependency in own.dependency:
            _well_known(pool, dependency)
        pool.Add(own)


def _first(file: FileDescriptor) -> Descriptor:
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise NoSuchType(f"{file.name} has no message")
    return messages[0]


def _named(file: FileDescriptor, full_name: str) -> Descriptor:
    try:
        return file.pool.FindMessageTypeByName(full_name)
    except KeyError:
        there = ", ".join(message.full_name for message in file.message_types_by_name.values())
        raise NoSuchType(f"no message {full_name}: there are {there}") from None


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _ddl(message: Descriptor, inside: tuple[str, ...]) -> str:
    if message.full_name == _TIMESTAMP:
        return "TIMESTAMP"
    if message.full_name in inside:
        raise NoSuchType(f"Protobuf's {message.full_name} contains itself; no type in Spark does")
    return struct((field.name, _field(field, (*inside, message.full_name))) for field in message.fields)


def _field(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return f"MAP<{_field(key, inside)}, {_field(value, inside)}>"
    if field.message_type is not None:
        kind = _ddl(field.message_type, inside)
    else:
        kind = "BINARY" if field.type == FieldDescriptor.TYPE_BYTES else _TYPES[field.cpp_type]
    return f"ARRAY<{kind}>" if field.is_repeated else kind


def _plain(message: Any) -> Any:
    if message.DESCRIPTOR.full_name == _TIMESTAMP:
        return message.ToDatetime(tzinfo=UTC)
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        of = field.message_type.fields_by_name["value"]
        return {key: _one(value[key], of) for key in value}
    if field.is_repeated:
        return [_one(one, field) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(value, field)


def _one(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
