"""JSON with a JSON Schema: what the schema declares becomes columns. Values are shaped to it, not validated.

What has no type in Spark (unions, objects without properties, anything at all) is a STRING with the JSON in it.
"""

import json
from typing import Any

from spark_connector.formats.errors import CannotDecode, NoSuchType
from spark_connector.formats.registry import Registry, Schema
from spark_connector.formats.shapes import struct

_PRIMITIVES = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE", "string": "STRING"}


class JsonReader:
    """Reads any schema's values: JSON says itself what it is."""

    def __init__(self, schema: Schema, registry: Registry) -> None:
        self._schema = schema
        try:
            self._declared = json.loads(schema.text)
            self._imported = {name: json.loads(imported.text) for name, imported in schema.references}
        except ValueError as error:
            raise NoSuchType(f"schema {schema.id} is not JSON Schema: {error}") from error

    def ddl(self) -> str:
        """Raises `NoSuchType`."""
        return self._ddl(self._declared, self._declared, ())

    def read(self, schema_id: int, payload: memoryview) -> Any:
        """Raises `CannotDecode`."""
        try:
            return json.loads(bytes(payload))
        except ValueError as error:
            raise CannotDecode(f"not JSON: {error}") from error

    def _ddl(self, schema: Any, root: Any, inside: tuple[str, ...]) -> str:
        if not isinstance(schema, dict):
            return "STRING"
        if "$ref" in schema:
            return self._referenced(str(schema["$ref"]), root, inside)
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices:
            real = [choice for choice in choices if choice.get("type") != "null"]
            return self._ddl(real[0], root, inside) if len(real) == 1 else "STRING"
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list):
            real_kinds = [kind for kind in kinds if kind != "null"]
            kinds = real_kinds[0] if len(real_kinds) == 1 else None
        if kinds == "array":
            return f"ARRAY<{self._ddl(schema.get('items'), root, inside)}>"
        if kinds == "object":
            return self._object(schema, root, inside)
        return _PRIMITIVES.get(str(kinds), "STRING")

    def _object(self, schema: dict[str, Any], root: Any, inside: tuple[str, ...]) -> str:
        if schema.get("properties"):
            return struct((name, self._ddl(one, root, inside)) for name, one in schema["properties"].items())
        if isinstance(schema.get("additionalProperties"), dict):
            return f"MAP<STRING, {self._ddl(schema['additionalProperties'], root, inside)}>"
        return "STRING"

    def _referenced(self, reference: str, root: Any, inside: tuple[str, ...]) -> str:
        """`#/$defs/name` of this schema, or of one that it imports."""
        if reference in inside:
            raise NoSuchType(f"JSON Schema's {reference} contains itself; no type in Spark does")
        file, _, path = reference.partition("#")
        found = new_root = self._imported.get(file) if file else root
        for step in filter(None, path.split("/")):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise NoSuchType(f"JSON Schema's {reference} points nowhere")
        return self._ddl(found, new_root, (*inside, reference))
