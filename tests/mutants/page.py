"""docs/mutants.md: every mutant, what it imitates, and what noticed it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutants.run import Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"

HEAD = """# Planted defects

Written by `make mutants`. Each line is a defect of the kind that brokers shipped: a few lines in the place of ours,
planted into the live code of a process of its own (`tests/mutants/tables`). What noticed it is a test below `tests/`, a
scenario, or a seed of the simulation; one that nothing notices is a hole in the tests, and fails the run.
"""


def write(verdicts: "Sequence[Verdict]") -> None:
    """The whole page anew."""
    PAGE.write_text(page(verdicts), encoding="utf-8")


def page(verdicts: "Sequence[Verdict]") -> str:
    noticed = [verdict for verdict in verdicts if verdict.by]
    kinds = {"tests": 0, "scenarios": 0, "the simulation": 0}
    for verdict in noticed:
        kinds[_kind(verdict.by)] += 1
    counts = ", ".join(f"{count} by {kind}" for kind, count in kinds.items())
    lines = [
        HEAD,
        f"{len(verdicts)} planted, {len(noticed)} noticed: {counts}.\n",
        "| defect | imitates | noticed by | seconds |",
        "|---|---|---|---|",
    ]
    for verdict in verdicts:
        cells = (verdict.mutant.name, verdict.mutant.imitates, _noticed_by(verdict), f"{verdict.seconds:.0f}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _kind(catcher: str) -> str:
    if catcher.startswith("scenario"):
        return "scenarios"
    return "the simulation" if catcher.startswith("simulation") else "tests"


def _noticed_by(verdict: "Verdict") -> str:
    if not verdict.by:
        return "**nothing**"
    if _kind(verdict.by) == "the simulation":
        return f"simulation, {verdict.said.partition(':')[0]}"
    if _kind(verdict.by) == "scenarios":
        return verdict.said.partition(": ")[0]
    test = verdict.said.partition("::")[2] or verdict.by
    return f"`{test.partition('[')[0]}`"
