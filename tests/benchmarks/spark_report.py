"""docs/benchmarks-spark.json and docs/benchmarks-spark.md: medians, ratios, and what became of each goal."""

import json
import statistics
from pathlib import Path

from tests.benchmarks.ratios import Measured, number
from tests.benchmarks.report import DOCS
from tests.benchmarks.spark_rows import FAMILIES, P50, P99, RATE, SparkGoal, SparkRow

JSON, PAGE, NOTES = (DOCS / f"benchmarks-spark{end}" for end in (".json", ".md", "-notes.md"))

HEAD = """# Benchmarks: Spark

Made by `make bench-spark`; do not edit (what is to be said about the figures is in `benchmarks-spark-notes.md`).

One session of `local[2]` and the brokers share two cores. All ways to do a load are run in turns, A B C D A B C D,
after rounds that are not counted. Medians over the rounds; ratios are what counts, absolutes depend on the machine.
"Tallystick" stands for our broker with its data in the page cache, as Kafka has it by default. "Stock" is the connector
of Spark, "stock tuned" the same with `kafka.max.poll.records=10000` (source), or `kafka.linger.ms=20` and
`kafka.batch.size=262144` (sink). Raw values: `benchmarks-spark.json`."""


def load() -> Measured:
    """row title → candidate → figure → the values of all rounds"""
    return json.loads(JSON.read_text())["rows"] if JSON.exists() else {}


def save(measured: Measured, rows: tuple[SparkRow, ...], about: dict[str, object]) -> None:
    """Merge into what is there: a run may have measured a few rows only."""
    known = load()
    for title, candidates in measured.items():
        known.setdefault(title, {}).update(candidates)
    JSON.write_text(json.dumps({"about": about, "rows": known}, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(known, rows, about))


def page(measured: Measured, rows: tuple[SparkRow, ...], about: dict[str, object]) -> str:
    facts = ", ".join(f"{key} {value}" for key, value in about.items())
    parts = [HEAD, f"Last run: {facts}.", "## Goals", "\n".join(goals(measured, rows))]
    for family, meaning in FAMILIES.items():
        chosen = [row for row in rows if row.family == family and row.title in measured]
        if chosen:
            parts += [f"## {family.capitalize()}", meaning, "\n".join(_table(measured, chosen))]
    return "\n\n".join([*parts, *_notes(NOTES)]).strip() + "\n"


def _notes(path: Path) -> list[str]:
    return [path.read_text().strip()] if path.exists() else []


def median(measured: Measured, title: str, candidate: str, figure: str) -> float | None:
    values = measured.get(title, {}).get(candidate, {}).get(figure)
    return statistics.median(values) if values else None


def verdict(measured: Measured, title: str, one: SparkGoal) -> tuple[str, bool] | None:
    """(how it stands, reached?), None where it was not measured."""
    ours = median(measured, title, one.goal.mode, one.goal.figure)
    theirs = median(measured, title, one.rival, one.goal.figure)
    if ours is None or not theirs:
        return None
    found = ours - theirs if one.difference else ours / theirs
    unit = " ms more" if one.difference else " ×"
    reached = found >= one.goal.ratio if one.goal.bound == "≥" else found <= one.goal.ratio
    return f"{number(found)}{unit} ({one.goal.bound} {number(one.goal.ratio)})", reached


def goals(measured: Measured, rows: tuple[SparkRow, ...]) -> list[str]:
    """A table: what became of each goal that was measured."""
    lines = ["| load | figure | compared | stands at | |", "|---|---|---|---|---|"]
    for row in rows:
        for one in row.goals:
            found = verdict(measured, row.title, one)
            if found is not None:
                facts, reached = found
                mark = "reached" if reached else "**not reached**"
                compared = f"{one.goal.mode} : {one.rival}"
                lines.append(f"| {row.title} | {one.goal.figure} | {compared} | {facts} | {mark} |")
    return lines


def _table(measured: Measured, rows: list[SparkRow]) -> list[str]:
    names = [candidate.name for candidate in rows[0].candidates]
    lines = [f"| | | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for row in rows:
        figures = dict.fromkeys(figure for candidate in measured[row.title].values() for figure in candidate)
        for figure in sorted(figures, key=_place):
            cells = [number(median(measured, row.title, name, figure)) for name in names]
            lines.append(f"| {row.shape.title} | {figure} | {' | '.join(cells)} |")
    return lines


def _place(figure: str) -> tuple[int, str]:
    """The figures that have goals come first."""
    first = (RATE, P50, P99)
    return (first.index(figure) if figure in first else len(first), figure)
