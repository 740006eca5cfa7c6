"""docs/benchmarks.json, docs/benchmarks.md and its pictures: medians, ratios, and what became of each goal."""

import json
from pathlib import Path

from tests.benchmarks import plots
from tests.benchmarks.ratios import Measured, Standing, compared, median, number, verdict
from tests.benchmarks.rows import GOALS, HEADINGS, Goal, family_of
from tests.benchmarks.targets import COMPARED, TITLES

DOCS = Path(__file__).resolve().parents[2] / "docs"
JSON, PAGE, NOTES = DOCS / "benchmarks.json", DOCS / "benchmarks.md", DOCS / "benchmarks-notes.md"
PICTURES = DOCS / "images" / "benchmarks"
UNSHOWN = "transactions"
"""What others are calculated by."""

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
    write()


def write() -> None:
    """The page and its pictures, of what was measured."""
    rows, about = load()
    PICTURES.mkdir(parents=True, exist_ok=True)
    for family, picture in pictures(rows).items():
        (PICTURES / f"{family}.svg").write_text(picture)
    PAGE.write_text(page(rows, about))


def pictures(rows: Measured) -> dict[str, str]:
    """One of each family, by its name."""
    return {family: plots.svg(HEADINGS[family], rows, titles) for family, titles in _families(rows).items()}


def _families(rows: Measured) -> dict[str, list[str]]:
    """The titles of each family that was measured, in the order of the page."""
    found: dict[str, list[str]] = {family: [] for family in HEADINGS}
    for title in sorted(rows, key=_place):
        found[family_of(title)].append(title)
    return {family: titles for family, titles in found.items() if titles}


def _place(title: str) -> tuple[int, str]:
    order = list(GOALS)
    return (order.index(title) if title in order else len(order), title)


def _figures(rows: Measured) -> list[str]:
    parts: list[str] = []
    for family, titles in _families(rows).items():
        heading = HEADINGS[family]
        parts += [f"### {heading}", f"![{heading}: medians and rounds](images/benchmarks/{family}.svg)"]
        parts.append("\n".join(_table(rows, titles)))
    return parts


def _table(rows: Measured, titles: list[str]) -> list[str]:
    """Of what was measured: a target or a ratio that no row has is no column."""
    targets = [name for name in TITLES if any(name in rows[title] for title in titles)]
    pairs = {name: pair for name, pair in COMPARED.items() if set(pair) <= set(targets)}
    columns = [*(TITLES[name] for name in targets), *pairs]
    lines = [f"| | | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for title in titles:
        for figure in dict.fromkeys(figure for target in rows[title].values() for figure in target):
            if figure == UNSHOWN:
                continue
            medians = [number(median(rows, title, name, figure)) for name in targets]
            ratios = [_ratio(compared(rows, title, figure, ours, rival)) for ours, rival in pairs.values()]
            lines.append(f"| {' | '.join([title, figure, *medians, *ratios])} |")
    return lines


def _ratio(standing: Standing | None) -> str:
    return "" if standing is None else f"{standing.median:.2f} ({_spread(standing)})"


def _spread(standing: Standing) -> str:
    ends = [f"{ratio:.2f}" for ratio in (min(standing.rounds), max(standing.rounds))]
    return "–".join(dict.fromkeys(ends))


def _goals(rows: Measured) -> list[str]:
    lines = ["| goal | of | stands at | rounds | |", "|---|---|---|---|---|"]
    for title, goals in GOALS.items():
        for goal in goals:
            found = verdict(rows, title, goal)
            if found is not None:
                unit = "" if goal.absolute else " ×"
                stands = f"{number(found.standing.median)}{unit} ({goal.bound} {number(goal.ratio)}{unit})"
                rounds = f"{_span(found.standing)}: {found.rounds_reached} of {len(found.standing.rounds)}"
                mark = "reached" if found.is_reached else "**not reached**"
                lines.append(f"| {title}: {goal.figure} | {_compared(goal)} | {stands} | {rounds} | {mark} |")
    return lines


def _span(standing: Standing) -> str:
    return "–".join(dict.fromkeys(number(value) for value in (min(standing.rounds), max(standing.rounds))))


def _compared(goal: Goal) -> str:
    return goal.mode if goal.rival is None else f"{goal.mode} : {goal.rival}"


HEAD = """# Benchmarks

Made by `make bench`; do not edit (what is to be said about the figures is in `benchmarks-notes.md`).

The same load from confluent-kafka, on the same cores as the brokers, in turns A B C D A B C D after a warm-up that is
not counted. Medians over the rounds; ratios are what counts, absolutes depend on the machine. Behind a ratio of medians
stand the smallest and the largest ratio of a round of ours to the same round of the rival. Raw values:
`benchmarks.json`."""

RIVALRY = """
Page cache against Kafka's default, durable against Kafka with a flush per message. `kfake` is the broker of
franz-go for tests, in Go: a rival of the page cache, for it keeps its state in files (its option `DataDir`) and leaves
their syncs to the kernel. It is measured where Go is.

A goal is reached when the median is and two of three rounds are."""


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
        "## Goals",
        RIVALRY,
        "\n".join(_goals(rows)),
        "## Figures",
        *_figures(rows),
        notes,
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"
