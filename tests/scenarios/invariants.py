"""docs/invariants.md: what must hold, and the tests that name it.

`python -m tests.scenarios.invariants --write` writes the page; a test holds it against the tree, and fails where an
invariant or a known defect is named by no test.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.scenarios.known import INVARIANTS, KNOWN_DEFECTS, NOT_HERE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "invariants.md"
NAME = re.compile(r"\bI\d\d\b|KAFKA-\d+|CORE-\d+|Redpanda (?:PR )?#\d+|KoP (?:PR )?#\d+")
SHORT_LIST = re.compile(r"KAFKA-\d+(?:(?:, | and |/)\d{4,5}\b)+")
NOT_TESTS = {"known.py", "invariants.py"}

HEAD = """# Invariants and known defects

Made from the tests (`make docs`); do not edit it. A run of the tests fails where one of these is named by no test.

## What must hold

| | | named by |
|---|---|---|
"""
DEFECTS = """
## What went wrong elsewhere

Defects that brokers of this protocol have shipped, Kafka's unless another name stands there. Each is held by a test
that names it, or cannot happen here, for the reason given.

| | named by |
|---|---|
"""


def citations() -> dict[str, list[str]]:
    """Name → where in the tests it is named: a file, and for a scenario its title."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name not in NOT_TESTS:
            for name in _names(path.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    for path in sorted((ROOT / "tests" / "scenarios").glob("*.txt")):
        for name in _names(path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return {name: sorted(places) for name, places in found.items()}


def _names(text: str) -> Iterator[str]:
    yield from NAME.findall(text)
    for several in SHORT_LIST.findall(text):
        yield from (f"KAFKA-{number}" for number in re.findall(r"\d{4,5}", several))


def missing() -> list[str]:
    """What no test names, though one should."""
    cited = citations()
    return [name for name in (*INVARIANTS, *KNOWN_DEFECTS) if name not in cited and name not in NOT_HERE]


def page() -> str:
    cited = citations()
    lines = [HEAD.rstrip("\n")]
    for name, statement in INVARIANTS.items():
        lines.append(f"| {name} | {statement} | {_links(cited.get(name, []))} |")
    lines.append(DEFECTS.rstrip("\n"))
    for name in KNOWN_DEFECTS:
        where = _links(cited.get(name, []))
        reason = NOT_HERE.get(name, "")
        lines.append(f"| {name} | {where or reason} |")
    return "\n".join(lines) + "\n"


def _links(places: list[str]) -> str:
    shown = [f"[{Path(place).name}](../{place})" for place in places[:6]]
    more = [f"{len(places) - 6} more"] if len(places) > 6 else []
    return ", ".join([*shown, *more])


def main(arguments: list[str]) -> int:
    if "--write" in arguments:
        PAGE.write_text(page(), encoding="utf-8")
    for name in missing():
        print(f"no test names {name}", file=sys.stderr)
    return 1 if missing() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
