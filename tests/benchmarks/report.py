"""docs/benchmarks.json and docs/benchmarks.md: medians, ratios, and what became of each goal."""

import json
import statistics
from pathlib import Path

from tests.benchmarks.rows import GOALS, Goal
from tests.benchmarks.targets import RIVALS, TITLES

DOCS = Path(__file__).resolve().parents[2] / "docs"
JSON, PAGE, NOTES = DOCS / "benchmarks.json", DOCS / "benchmarks.md", DOCS / "benchmarks-notes.md"

Measured = dict[str, dict[str, dict[str, list[float]]]]
"""row title → target → figure → the values of all rounds"""


About = dict[str, dict[str, object]]
"""row title → the facts of the run that measured it last"""


def load() -> tuple[Measured, About]:
    known = json.loads(JSON.read_text()) if JSON.exists() else {}
    return known.get("rows", {}), known.get("about", {})


def save(measured: Measured, about: dict[str, object]) -> None:
    """Merge into what is there: a run may have measured a few rows only."""
    rows, known = load()
    for title, targets in measured.items():
        rows.setdefault(title, {}).update(targets)
        known[title] = about
    JSON.write_text(json.dumps({"about": known, "rows": rows}, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(rows, known))


def _median(rows: Measured, title: str, target: str, figure: str) -> float | None:
    values = rows.get(title, {}).get(target, {}).get(figure)
    return statistics.median(values) if values else None


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def verdict(rows: Measured, title: str, goal: Goal) -> tuple[str, bool] | None:
    """(how it stands, reached?), None where it was not measured."""
    ours = _median(rows, title, goal.mode, goal.figure)
    base = 1.0 if goal.absolute else _median(rows, title, RIVALS[goal.mode], goal.figure)
    if ours is None or not base:
        return None
    found = ours / base
    reached = found >= goal.ratio if goal.bound == "≥" else found <= goal.ratio
    unit = "" if goal.absolute else " ×"
    return f"{number(found)}{unit} ({goal.bound} {number(goal.ratio)}{unit})", reached


def _table(rows: Measured) -> list[str]:
    lines = [f"| | | {' | '.join(TITLES.values())} | page cache : Kafka | durable : flush |", "|---|---|" + "---|" * 6]
    for title in sorted(rows, key=_place):
        figures = dict.fromkeys(figure for target in rows[title].values() for figure in target)
        for figure in figures:
            if figure == "transactions":
                continue
            medians = {name: _median(rows, title, name, figure) for name in TITLES}
            ratios = [_ratio(medians["page-cache"], medians["kafka"])]
            ratios.append(_ratio(medians["durable"], medians["kafka-flush"]))
            cells = [title, figure, *(number(median) for median in medians.values()), *ratios]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _place(title: str) -> tuple[int, str]:
    order = list(GOALS)
    return (order.index(title) if title in order else len(order), title)


def _ratio(ours: float | None, theirs: float | None) -> str:
    return f"{ours / theirs:.2f}" if ours is not None and theirs else ""


def _goals(rows: Measured) -> list[str]:
    lines = ["| goal | mode | stands at | |", "|---|---|---|---|"]
    for title, goals in GOALS.items():
        for goal in goals:
            found = verdict(rows, title, goal)
            if found is not None:
                text, reached = found
                mark = "reached" if reached else "**not reached**"
                lines.append(f"| {title}: {goal.figure} | {goal.mode} | {text} | {mark} |")
    return lines


HEAD = """# Benchmarks

Made by `make bench`; do not edit (what is to be said about the figures is in `benchmarks-notes.md`).

The same load from confluent-kafka, on the same cores as the brokers, in turns A B C D A B C D after a warm-up that is
not counted. Medians over the rounds; ratios are what counts, absolutes depend on the machine. Raw values:
`benchmarks.json`."""


def _runs(about: About) -> list[str]:
    """Each with its rows, by name but for the run that measured most."""
    runs: dict[str, list[str]] = {}
    for title in sorted(about, key=_place):
        runs.setdefault(", ".join(f"{key} {value}" for key, value in about[title].items()), []).append(title)
    largest = max(runs, key=lambda facts: len(runs[facts]), default="")
    return [f"- {facts}: {'all other rows' if facts == largest else '; '.join(runs[facts])}" for facts in runs]


def page(rows: Measured, about: About) -> str:
    notes = NOTES.read_text() if NOTES.exists() else ""
    parts = [
        HEAD,
        "Runs:",
        "\n".join(_runs(about)),
        "## Figures",
        "\n".join(_table(rows)),
        "## Goals",
        "Page cache against Kafka's default, durable against Kafka with a flush per message.",
        "\n".join(_goals(rows)),
        notes,
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"
