"""The table of docs/security.md: what each API needs to be allowed, made from the guards of the handlers.

`python -m tests.harness.permissions --write` writes it; a test holds it against the catalogue.
"""

import sys

from broker.api.api_families import load_handlers
from broker.api.catalogue import Entry
from broker.api.permissions.need import Need
from tests.harness.generated_table import DOCS, GeneratedTable

HEAD = "| API | operation | on | otherwise |\n|---|---|---|---|\n"


def word(name: str) -> str:
    """As Kafka's tools write it: `DescribeConfigs`, `TransactionalId`."""
    return "".join(part.capitalize() for part in name.split("_"))


def row(api: str, need: Need) -> str:
    resource = word(need.resource.name) + (f": {need.of}" if need.of else "")
    otherwise = "" if need.error is None else need.error.name
    return f"| {api} | {word(need.operation.name)} | {resource} | {otherwise} |"


def rows(entry: Entry) -> list[str]:
    guard = entry.guard
    found = [row(entry.name if not number else "", need) for number, need in enumerate(guard.needs)]
    if guard.also:
        found.append(f"| {'' if found else entry.name} | | {guard.also} | |")
    return found


def table() -> str:
    entries = sorted(load_handlers().values(), key=lambda entry: entry.name)
    return HEAD + "".join(f"{line}\n" for entry in entries for line in rows(entry))


TABLE = GeneratedTable(DOCS / "security.md", "<!-- what each API needs: made by `make docs` -->\n", table)


if __name__ == "__main__":
    sys.exit(TABLE.main())
