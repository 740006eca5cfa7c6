"""A table in a page of `docs/` that is made of the code: `make docs` writes it anew, a test compares."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_END = "<!-- end -->\n"


@dataclass(frozen=True, slots=True)
class GeneratedTable:
    """Between the line `begin` and the end."""

    page: Path
    begin: str
    table: Callable[[], str]

    def is_current(self) -> bool:
        text = self.page.read_text()
        return text == self.written_into(text)

    def written_into(self, before: str) -> str:
        """The page as it is to be."""
        head, _, rest = before.partition(self.begin)
        _, _, tail = rest.partition(_END)
        return head + self.begin + self.table() + _END + tail

    def main(self) -> int:
        if "--write" in sys.argv:
            self.page.write_text(self.written_into(self.page.read_text()))
            return 0
        current = self.is_current()
        print(f"{self.page.name} is {'current' if current else 'out of date: run `make docs`'}")
        return 0 if current else 1
