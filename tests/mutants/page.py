"""docs/mutants.md: every mutant, what it imitates, and which story and which unit test noticed it.

The page is also what is remembered of earlier runs: lines of mutants that a run did not look at stay as they are.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.over_a_store.section import section
from tests.mutants.tables import MUTANTS

if TYPE_CHECKING:
    from tests.mutants.asking import Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"
SCORE = Path(__file__).with_name("at_random") / "score.md"
"""Written by `make mutants-at-random`."""

HEAD = """# Planted defects

Written by `make mutants`. Each line is a defect of the kind that brokers shipped: a few lines in the place of ours,
planted into the live code of a process of its own (`tests/mutants/tables`). Each has to be noticed by a story: a
scenario (`tests/scenarios`), or a seed of the simulation among the first 150; one that no story notices is a hole in
the tests, and fails the run. Beside it stands the unit test that noticed it, where one was written for it. Where no
story can notice a defect, the line says why, and the test has to.
"""
NOTHING = "**nothing**"
NO_STORY = "no story: "
SEED = "simulation, seed "
CELLS = re.compile(r"(?<!\\) \| ")


def write(verdicts: "Sequence[Verdict]") -> None:
    """The lines of these anew, in the order of the tables."""
    PAGE.write_text(page(verdicts, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def page(verdicts: "Sequence[Verdict]", before: str) -> str:
    """`before`: the page as it is."""
    rows = {cells[0]: cells for cells in _rows_of(before.partition("\n## ")[0])}
    for verdict in verdicts:
        mutant = verdict.mutant
        rows[_cell(mutant.name)] = [_cell(mutant.name), _cell(mutant.imitates), _cell(_story(verdict)), _test(verdict)]
    ordered = [rows[name] for name in map(_cell, MUTANTS) if name in rows]
    stories = [cells[2] for cells in ordered if not cells[2].startswith(NO_STORY) and cells[2] != NOTHING]
    seeds = sum(story.startswith(SEED) for story in stories)
    alone = sum(cells[2].startswith(NO_STORY) for cells in ordered)
    lines = [
        HEAD,
        f"{len(ordered)} planted, {len(stories)} noticed by a story: {len(stories) - seeds} by a scenario, {seeds} by a"
        f" seed; {alone} by a unit test alone, {sum(bool(cells[3]) for cells in ordered) - alone} by one, too.\n",
        "| defect | imitates | noticed by the story | and by the test |",
        "|---|---|---|---|",
        *("| " + " | ".join(cells) + " |" for cells in ordered),
    ]
    return "\n".join(lines) + "\n" + sections()


def rewrite_sections() -> None:
    """What stands behind the table alone."""
    planted = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip("\n")
    PAGE.write_text(planted + "\n" + sections(), encoding="utf-8")


def sections() -> str:
    """What stands behind the table: what its own tables say, and the score of defects drawn at random."""
    return "\n" + section() + _score()


def _score() -> str:
    return "\n" + SCORE.read_text(encoding="utf-8") if SCORE.exists() else ""


def _rows_of(text: str) -> list[list[str]]:
    rows = [line.removeprefix("| ").removesuffix(" |") for line in text.splitlines() if line.startswith("| ")]
    return [CELLS.split(row) for row in rows[1:]]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _story(verdict: "Verdict") -> str:
    if verdict.mutant.unseen and verdict.test:
        return NO_STORY + verdict.mutant.unseen
    kind, _, rest = verdict.story.partition(" ")
    return {"scenario": rest, "seed": f"{SEED}{rest}"}.get(kind, NOTHING)


def _test(verdict: "Verdict") -> str:
    if not verdict.test:
        return ""
    test = verdict.test_said.partition("::")[2] or verdict.test
    return f"`{test.partition('[')[0]}`"
