"""docs/compatibility.md, made from the catalogue of handlers: per API the versions served, and what the handler
says of itself; from the matrix of clients, and from the list of what clients stumble over.

`python -m tests.harness.compatibility --write` writes it; a test holds it against the catalogue.
"""

import inspect
import re
import sys
from pathlib import Path

from broker.api.api_families import load_handlers
from broker.api.catalogue import CATALOGUE, Entry
from protocol.schema import schema_of
from tests.conformance import api_versions, quirks
from tests.conformance.matrix import page as matrix

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"

HEAD = """# Compatibility

This page is made from the catalogue of handlers and from what clients saw (`make docs`); do not edit it. ApiVersions,
this page and the tests of every message and version come from the same list, so an API that is not here is not
advertised, and a version that is not here closes the connection with a line in the log, as Apache Kafka does.

Unmodified clients (confluent-kafka, kafka-python, aiokafka) use these APIs over TCP in `tests/clients`, and the
messages of every API are compared byte for byte with two independent implementations, in every version
(`tests/conformance`). "Known" are the versions that the message tables hold; "served" the ones this broker answers;
"Kafka" those that a running Apache Kafka 4.3.1 lists.

| key | API | served | Kafka | known | in | what it does |
|---|---|---|---|---|---|---|
"""


def versions(numbers: range) -> str:
    return str(numbers.start) if len(numbers) == 1 else f"{numbers.start}–{numbers.stop - 1}"


def row(entry: Entry, kafkas: dict[int, tuple[int, int]]) -> str:
    served = versions(entry.versions)
    if entry.advertised != entry.versions:
        served += f" (advertised {versions(entry.advertised)})"
    if entry.setting:
        served += f" (with `{entry.setting}=true`)"
    module = inspect.getmodule(entry.handler)
    assert module is not None and module.__name__.startswith("broker.api.handlers.")
    where = module.__name__.replace(".", "/") + ".py"
    known = versions(schema_of(entry.request).versions)
    theirs = api_versions.written(kafkas.get(entry.api_key))
    return f"| {entry.api_key} | {entry.name} | {served} | {theirs} | {known} | `{where}` | {summary(entry)} |"


def rows() -> list[str]:
    """In order of keys."""
    kafkas = api_versions.recorded()
    return [row(CATALOGUE[key], kafkas) for key in sorted(CATALOGUE)]


def summary(entry: Entry) -> str:
    """The first sentence of the handler's docstring."""
    text = " ".join(inspect.cleandoc(entry.handler.__doc__ or "").split("\n\n")[0].split())
    first = re.split(r"(?<=[.:;]) ", text)[0].rstrip(".:;")
    return first.replace("|", "\\|")


def details(entry: Entry) -> str:
    return f"### {entry.name} ({entry.api_key})\n\n{inspect.cleandoc(entry.handler.__doc__ or '')}\n"


def page() -> str:
    load_handlers()
    entries = [CATALOGUE[key] for key in sorted(CATALOGUE)]
    table = "\n".join(rows())
    beside = api_versions.section()
    said = "\n".join(map(details, entries))
    parts = [
        f"{HEAD}{table}\n",
        beside,
        matrix.section(),
        quirks.section(),
        f"## What each handler says of itself\n\n{said}",
    ]
    return "\n".join(parts)


def main() -> int:
    if "--write" in sys.argv:
        PAGE.write_text(page())
        return 0
    current = PAGE.exists() and PAGE.read_text() == page()
    print(f"{PAGE.name} is {'current' if current else 'out of date: run `make docs`'}")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
