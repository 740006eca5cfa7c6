"""What a look at a data folder has found, each with its file and position."""

from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    """How bad it is."""

    DAMAGE = "damage"
    """Something is not what was written."""
    RECOVERY = "recovery"
    """What a crash leaves, and the next start mends by itself."""
    NOTE = "note"
    """Nothing is wrong with the files."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One."""

    severity: Severity
    file: str
    """In the data folder."""
    position: int | None
    """A byte, where there is one."""
    what: str

    def line(self) -> str:
        at = "" if self.position is None else f" at byte {self.position}"
        return f"{self.severity.value:8}  {self.file}{at}: {self.what}"


@dataclass(slots=True)
class Findings:
    """All of them, and how much was looked at."""

    found: list[Finding] = field(default_factory=list[Finding])
    logs: int = 0
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0

    def damage(self, file: str, position: int | None, what: str) -> None:
        self.found.append(Finding(Severity.DAMAGE, file, position, what))

    def recovery(self, file: str, position: int | None, what: str) -> None:
        self.found.append(Finding(Severity.RECOVERY, file, position, what))

    def note(self, file: str, what: str) -> None:
        self.found.append(Finding(Severity.NOTE, file, None, what))

    def of(self, severity: Severity) -> int:
        """How many there are."""
        return sum(one.severity is severity for one in self.found)
