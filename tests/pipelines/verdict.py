"""A verdict: lines of what was found and what it must be."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    what: str
    found: int
    wanted: str
    right: bool


@dataclass(slots=True)
class Verdict:
    """All lines of one pipeline, and figures and remarks that are reported but not judged."""

    lines: list[Line] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def equal(self, what: str, found: int, wanted: int) -> None:
        self.lines.append(Line(what, found, str(wanted), found == wanted))

    def none(self, what: str, found: int) -> None:
        self.equal(what, found, 0)

    def above(self, what: str, found: int, floor: int = 0) -> None:
        self.lines.append(Line(what, found, f"> {floor}", found > floor))

    @property
    def ok(self) -> bool:
        return bool(self.lines) and all(line.right for line in self.lines)

    @property
    def wrong(self) -> list[str]:
        return [line.what for line in self.lines if not line.right]

    def as_json(self) -> dict[str, object]:
        lines = {line.what: line.found for line in self.lines}
        judged = {"ok": self.ok, "wrong": self.wrong, "lines": lines}
        return {**judged, "remarks": self.remarks, "figures": self.figures}


def steps_back(numbers: Iterable[int]) -> int:
    """How often a number is not above the one before it."""
    return sum(later <= earlier for earlier, later in pairwise(numbers))
