"""docs/mutants.md: every mutant, what it imitates, and which story and which unit test noticed it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutants.asking import Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"

HEAD = """# Planted defects

Written by `make mutants`. Each line is a defect of the kind that brokers shipped: a few lines in the place of ours,
planted into the live code of a process of its own (`tests/mutants/tables`). Each has to be noticed by a story: a
scenario (`tests/scenarios`), or a seed of the simulation among the first 150; one that no story notices is a hole in
the tests, and fails the run. Beside it stands the unit test that noticed it, where one was written for it.
"""


def write(verdicts: "Sequence[Verdict]") -> None:
    """The whole page anew."""
    PAGE.write_text(page(verdicts), encoding="utf-8")


def page(verdicts: "Sequence[Verdict]") -> str:
    scenarios = sum(verdict.story.startswith("scenario") for verdict in verdicts)
    seeds = sum(verdict.story.startswith("seed") for verdict in verdicts)
    tests = sum(bool(verdict.test) for verdict in verdicts)
    lines = [
        HEAD,
        f"{len(verdicts)} planted, {scenarios + seeds} noticed by a story: {scenarios} by a scenario, {seeds} by a"
        f" seed; {tests} by a unit test, too.\n",
        "| defect | imitates | noticed by the story | and by the test |",
        "|---|---|---|---|",
    ]
    for verdict in verdicts:
        cells = (verdict.mutant.name, verdict.mutant.imitates, _story(verdict.story), _test(verdict))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _story(story: str) -> str:
    kind, _, rest = story.partition(" ")
    return {"scenario": rest, "seed": f"simulation, seed {rest}"}.get(kind, "**nothing**")


def _test(verdict: "Verdict") -> str:
    if not verdict.test:
        return ""
    test = verdict.test_said.partition("::")[2] or verdict.test
    return f"`{test.partition('[')[0]}`"
