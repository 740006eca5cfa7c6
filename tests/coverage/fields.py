"""Which values the fields of requests have had in all stories, by API and version.

A value counts as one of a few kinds: `default` is what the message's table names (zero, empty or null where it names
none), `negative` and `extreme` (an end of the type's range) tell numbers apart, `one` and `many` arrays.

Each version that is served must have been asked, each field must have had two values, each list two entries.
"""

import typing
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from broker.api.api_families import load_handlers
from broker.api.catalogue import CATALOGUE, Entry
from protocol.schema import FieldSchema, Primitive
from tallystick.client.connection import Connection
from tests.scenarios.requests import columns_of

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
EXEMPT = {
    **dict.fromkeys(
        ("CreateAcls", "DeleteAcls", "DescribeAcls"),
        "who asks has to be somebody, and nobody in a story is; tests/unit/security asks each in every version",
    ),
    **dict.fromkeys(
        ("GetTelemetrySubscriptions", "PushTelemetry"),
        "served where a setting says so, with a library that not everybody has; tests/unit/administration asks them",
    ),
    **dict.fromkeys(
        (
            "AddPartitionsToTxn.transactions.topics.topic_id",
            "AddPartitionsToTxn.v3_and_below_topics.topic_id",
            "WriteTxnMarkers.markers.topics.topic_id",
        ),
        "only our own nodes send it, to each other: tests/unit/across_nodes, tests/simulation",
    ),
    "ApiVersions": "its answer is the list of APIs itself, which is ours; real clients and tests/conformance ask it",
}
"""What stories need not say, with the reason: an API, or a field of one (`Fetch.rack_id`)."""
NOT_STORIES = ("console", "setup")
"""Clients by which a scenario or a seed sets its stage."""


@dataclass(slots=True)
class Values:
    """Of one field in one version."""

    kinds: Counter[str] = field(default_factory=Counter)
    first: object = None
    varies: bool = False
    """Whether it has had two values."""

    def see(self, kind: str, value: object) -> None:
        if not self.kinds:
            self.first = value
        elif value != self.first:
            self.varies = True
        self.kinds[kind] += 1


class Fields:
    """All that was seen: message → field ("topics.partitions.fetch_offset") → version."""

    def __init__(self) -> None:
        self.seen: dict[type, dict[str, dict[int, Values]]] = {}
        self.versions: dict[type, Counter[int]] = {}

    def see(self, request: object, version: int) -> None:
        cls = type(request)
        self.versions.setdefault(cls, Counter())[version] += 1
        self._see(self.seen.setdefault(cls, {}), "", request, version)

    def _see(self, seen: dict[str, dict[int, Values]], path: str, value: Any, version: int) -> None:
        for spec in columns_of(type(value)):
            if not spec.in_version(version):
                continue
            name, content = f"{path}{spec.name}", getattr(value, spec.name)
            values = seen.setdefault(name, {}).setdefault(version, Values())
            values.see(kind_of(spec, content), content)
            if not isinstance(spec.element, Primitive) and content is not None:
                for element in content if spec.is_array else [content]:
                    self._see(seen, f"{name}.", element, version)


def kind_of(spec: FieldSchema, value: Any) -> str:
    """Which kind of value this is."""
    if value is None:
        return "null"
    if spec.is_array:
        return ("empty", "one")[len(value)] if len(value) < 2 else "many"
    if not isinstance(spec.element, Primitive):
        return "default" if value == spec.default else "other"
    if value == spec.default:
        return "default"
    if isinstance(value, bool) or spec.element.name not in BITS:
        return "other" if value else "empty"
    largest = (1 << BITS[spec.element.name] - 1) - 1
    if value in (largest, -largest - 1):
        return "extreme"
    return "zero" if value == 0 else "negative" if value < 0 else "other"


def entries() -> list[Entry]:
    """What this broker serves, in the order of the API keys."""
    load_handlers()
    return [entry for _, entry in sorted(CATALOGUE.items())]


def holes(fields: Fields) -> list[str]:
    """What no request has had."""
    found = [hole for entry in entries() for hole in _holes_of(fields, entry)]
    return [hole for hole in found if not {hole.split(":")[0], hole.split(":")[0].split(".")[0]} & EXEMPT.keys()]


def _holes_of(fields: Fields, entry: Entry) -> Iterator[str]:
    asked = fields.versions.get(entry.request, Counter())
    for version in entry.versions:
        if version not in asked:
            yield f"{entry.name}: version {version} is never asked"
    seen = fields.seen.get(entry.request, {})
    for path, spec in paths_of(entry.request, entry.versions):
        values = list(seen.get(path, {}).values())
        if not values:
            yield f"{entry.name}.{path}: is never sent"
        elif not any(one.varies for one in values) and all(one.first == values[0].first for one in values):
            yield f"{entry.name}.{path}: is always {values[0].first!r}"
        elif spec.is_array and not any(one.kinds["many"] for one in values):
            yield f"{entry.name}.{path}: has never more than one entry"


def paths_of(cls: type, versions: range, prefix: str = "") -> Iterator[tuple[str, FieldSchema]]:
    """Every field that some of these versions carry, with those of the structures in it."""
    for spec in columns_of(cls):
        if any(spec.in_version(version) for version in versions):
            yield f"{prefix}{spec.name}", spec
            if not isinstance(spec.element, Primitive):
                yield from paths_of(spec.element, versions, f"{prefix}{spec.name}.")


def table(fields: Fields, apis: typing.Collection[str] = ()) -> Iterator[str]:
    """A line for each field and version: how often it had which kind of value."""
    for entry in entries():
        if apis and entry.name not in apis:
            continue
        for version in entry.versions:
            yield f"{entry.name} v{version}: {fields.versions.get(entry.request, Counter())[version]} requests"
            for path, by_version in fields.seen.get(entry.request, {}).items():
                if version in by_version:
                    kinds = by_version[version].kinds.most_common()
                    yield f"    {path}: {', '.join(f'{kind} {count}' for kind, count in kinds)}"


@contextmanager
def counting() -> Iterator[Fields]:
    """While it lasts, what clients send is counted."""
    fields, send = Fields(), Connection._send

    def counted(self: Connection, request: object, version: int) -> int:
        if self.client_id not in NOT_STORIES:
            fields.see(request, version)
        return send(self, request, version)

    with mock.patch.object(Connection, "_send", counted):
        yield fields
