"""What clients have stumbled over with other brokers (`quirks.toml`), as a part of docs/compatibility.md."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.matrix.story import stories

TESTS = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("quirks.toml")
HEAD = """## What clients stumble over

What other brokers of this protocol got wrong so that a client noticed, and the tests that hold it here
(`tests/conformance/quirks.toml`; "matrix": the stories above).

| | | held by |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Quirk:
    """`held_by`: a file and what is in it, after a colon."""

    says: str
    held_by: list[str]

    def missing(self) -> list[str]:
        """What is named and is not there."""
        return [named for named in self.held_by if not _is_there(*named.split(": ", 1))]


def _is_there(file: str, name: str) -> bool:
    if file == "matrix":
        return name in {story.name for story in stories()}
    path = TESTS / file
    if not path.is_file():
        return False
    line = rf"^=== {re.escape(name)}$" if path.suffix == ".txt" else rf"^(async )?def {re.escape(name)}\("
    return re.search(line, path.read_text(), re.MULTILINE) is not None


def quirks() -> list[Quirk]:
    return [Quirk(**one) for one in tomllib.loads(LIST.read_text())["quirks"]]


def section() -> str:
    """Of the page, with its heading."""
    rows = []
    for number, quirk in enumerate(quirks(), 1):
        files = dict.fromkeys(named.split(": ")[0] for named in quirk.held_by)
        links = [file if file == "matrix" else f"[{Path(file).name}](../tests/{file})" for file in files]
        rows.append(f"| {number} | {quirk.says} | {', '.join(links)} |")
    return HEAD + "\n".join(rows) + "\n"
