"""Avro, through fastavro: values are read with the schema they were written with and resolved to the reader's."""

import json
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from spark_connector.formats.errors import CannotDecode, NoSuchType
from spark_connector.formats.registry import Registry, Schema
from spark_connector.formats.shapes import struct

_PRIMITIVES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "fixed": "BINARY",
    "enum": "STRING",
}
_LOGICAL = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "uuid": "STRING",
}
_WIDER = ({"int", "long"}, "BIGINT"), ({"int", "float", "double"}, "DOUBLE"), ({"float", "double"}, "DOUBLE")

Named = dict[str, Any]


class AvroReader:
    """Reads values as one schema, the reader's, has them."""

    def __init__(self, schema: Schema, registry: Registry) -> None:
        self._schema = schema
        self._registry = registry
        self._reader, self._named = _parsed(schema)
        self._writers = {schema.id: self._reader}

    def ddl(self) -> str:
        """Raises `NoSuchType`."""
        return _ddl(self._reader, self._named, ())

    def read(self, schema_id: int, payload: memoryview) -> Any:
        """Raises `CannotDecode`."""
        if schema_id not in self._writers:
            self._writers[schema_id] = _parsed(self._registry.by_id(schema_id))[0]
        stream = BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(stream, self._writers[schema_id], self._reader)
        except (EOFError, ValueError, KeyError, IndexError, TypeError, fastavro.read.SchemaResolutionError) as error:
            raise CannotDecode(f"not Avro of schema {schema_id}: {error or type(error).__name__}") from error
        if stream.tell() != len(payload):
            raise CannotDecode(f"{len(payload) - stream.tell()} bytes behind a value of schema {schema_id}")
        return value


def _parsed(schema: Schema) -> tuple[Any, Named]:
    """With full names, and all named types by name."""
    named: Named = {}
    try:
        for _name, imported in schema.references:
            fastavro.parse_schema(json.loads(imported.text), named_schemas=named)
        return fastavro.parse_schema(json.loads(schema.text), named_schemas=named), named
    except (SchemaParseException, ValueError) as error:
        raise NoSuchType(f"schema {schema.id} is not Avro: {error}") from error


def _ddl(schema: Any, named: Named, inside: tuple[str, ...]) -> str:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or _ddl(_definition(schema, named), named, inside)
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        if schema["name"] in inside:
            raise NoSuchType(f"Avro's {schema['name']} contains itself; no type in Spark does")
        fields = ((field["name"], _ddl(field["type"], named, (*inside, schema["name"]))) for field in schema["fields"])
        return struct(fields)
    if kind == "array":
        return f"ARRAY<{_ddl(schema['items'], named, inside)}>"
    if kind == "map":
        return f"MAP<STRING, {_ddl(schema['values'], named, inside)}>"
    if logical == "decimal":
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
    if logical in ("time-millis", "time-micros"):
        raise NoSuchType(f"Avro's {logical} has no type in Spark")
    return _LOGICAL.get(logical) or _ddl(kind, named, inside)


def _definition(name: str, named: Named) -> Any:
    if name not in named:
        raise NoSuchType(f"Avro's {name} has no type in Spark")
    return named[name]


def _union(branches: list[Any], named: Named, inside: tuple[str, ...]) -> str:
    """Null and something is that, with nulls; numbers become the widest. Others have no type in Spark."""
    kinds = [branch for branch in branches if branch != "null"]
    if len(kinds) == 1:
        return _ddl(kinds[0], named, inside)
    if all(isinstance(kind, str) for kind in kinds):
        for narrow, wide in _WIDER:
            if set(kinds) <= narrow:
                return wide
    raise NoSuchType(f"an Avro union of {len(kinds)} types has no type in Spark: read the value as binary")
