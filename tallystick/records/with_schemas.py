"""Records as JSON, where they were written with the schemas of a registry: what shows records, or looks for something
in them, need not know how they were written.
"""

from dataclasses import replace

from tallystick.records.reader import Seen
from tallystick.schemas.registry import Registry

_MOST_TEXT = 4 << 20
"""What would be longer stays as it is: a few bytes may stand for much."""


class NoRegistry(Exception):
    """It does not answer: the message says why."""


async def with_schemas(registry: Registry, piece: list[Seen]) -> list[Seen]:
    """Those of a piece. What has no schema, or is not of it, stays as it is. Raises `NoRegistry`."""
    values = [data for one in piece for data in (one.record.key, one.record.value)]
    await registry.wait_until_known(values, len(values))
    if registry.problem:
        raise NoRegistry(f"the schema registry does not answer: {registry.problem}")
    return [_read(registry, one) for one in piece]


def _read(registry: Registry, one: Seen) -> Seen:
    key, key_schema = _json(registry, one.record.key)
    value, value_schema = _json(registry, one.record.value)
    if key_schema is None and value_schema is None:
        return one
    return replace(
        one, record=replace(one.record, key=key, value=value), key_schema=key_schema, value_schema=value_schema
    )


def _json(registry: Registry, data: bytes | None) -> tuple[bytes | None, int | None]:
    read = registry.read(data, _MOST_TEXT)
    if read is None or read.text is None or len(read.text) > _MOST_TEXT:
        return data, None
    return read.text.encode("utf-8", "backslashreplace"), read.number
