"""Plain Python values as what Arrow takes for a type, and names as Spark's DDL wants them."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pyarrow as pa


def shaped(value: Any, kind: Any) -> Any:
    """A value that `pyarrow.array` takes for the type `kind`; what the type has no place for is left out."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: shaped(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [shaped(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return [(shaped(key, kind.key_type), shaped(one, kind.item_type)) for key, one in value.items()]
    if pa.types.is_string(kind) and not isinstance(value, str):
        return str(value) if isinstance(value, UUID) else json.dumps(value, ensure_ascii=False)
    return value


def struct(fields: Iterable[tuple[str, str]]) -> str:
    """DDL of a struct."""
    return "STRUCT<" + ", ".join(f"{quoted(name)}: {kind}" for name, kind in fields) + ">"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
