"""docs/attacks.json and docs/attacks.md: what each attack did to us and to Apache Kafka, in figures."""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from tests.attacks.registry import load_cases, size_text
from tests.attacks.trial import Outcome

DOCS = Path(__file__).resolve().parents[2] / "docs"
JSON, PAGE = DOCS / "attacks.json", DOCS / "attacks.md"
CONTROL = "nothing"
OURS, KAFKA = "tallystick", "kafka"
GUARDED = {(True, False): "SSL", (False, True): "SASL_PLAINTEXT", (True, True): "SASL_SSL"}
"""The protocol of a listener with TLS, with SASL, with both"""
TITLES = {
    OURS: "Tallystick",
    **{protocol: f"Tallystick, {protocol}" for protocol in GUARDED.values()},
    KAFKA: "Apache Kafka 4.3.1",
}
Known = dict[str, dict[str, Any]]
"""case → broker, or protocol of our listener → {"figures", "problems", "notes", "about"}"""

HEAD = """# Attacks

Made by `make attack` and `make oracle-attack`; do not edit. Each line is one attack of `tests/attacks/cases` in its
long form, on a broker of its own, with an honest client beside it in a process of its own ([testing.md](testing.md)).

- *turns*: of our event loop, over 20 ms and over 100 ms, and the longest, as its own monitor counted them during the
  attack. Kafka has no such loop.
- *honest*: the honest client's longest wait for Metadata, and for anything (a write with its sync, a transaction, a
  heartbeat).
- *memory*: resident megabytes before, at the peak, and after everybody has hung up. Kafka's heap is 1 GB and is not
  given back.
- *descriptors*: before, at the peak and after; topics that the attack made keep theirs.
- *held*: the process lived, the honest client was never refused, memory and sockets went back, no traceback was
  logged, and after a restart everything acknowledged was there and worked.

The line `nothing` is the control run. Where a protocol is named, all clients, the attacker included, speak it; cases
with a guarded listener of their own are run without SASL only. Waits and turns depend on the machine and on what else
it does; the line of the run says what it was."""


def load() -> Known:
    return json.loads(JSON.read_text()) if JSON.exists() else {}


def save(broker: str, outcomes: list[Outcome]) -> None:
    """Merge into what is there: a run may have been of a few cases only."""
    known = load()
    load_average = os.getloadavg()[0]
    machine = f"{os.cpu_count()} cores, load {load_average:.1f}, Python {platform.python_version()}"
    about = f"{time.strftime('%Y-%m-%d')}, {machine}"
    for outcome in outcomes:
        known.setdefault(outcome.case, {})[broker] = {
            "figures": outcome.figures,
            "problems": [problem[:300] for problem in outcome.problems],
            "notes": outcome.notes[:3],
            "about": about,
        }
    JSON.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(known))


def page(known: Known) -> str:
    parts = [HEAD]
    for broker, title in TITLES.items():
        rows = {name: brokers[broker] for name, brokers in known.items() if broker in brokers}
        if rows:
            parts += [f"## {title}", _runs(rows), "\n".join(_table(broker, rows))]
    titles = [f"- `{name}` ({size_text(one.long)}): {one.title}." for name, one in load_cases().items()]
    parts += ["## The cases", "\n".join(titles)]
    return "\n\n".join(parts) + "\n"


def _runs(rows: dict[str, Any]) -> str:
    """When, where, and beside how much other work the cases were run."""
    split = [row["about"].split(", ") for row in rows.values()]
    loads = sorted(float(words[2].removeprefix("load ")) for words in split)
    machines = sorted({", ".join((words[0], words[1], words[3])) for words in split})
    return f"Runs: {'; '.join(machines)}; the load of the machine was {loads[0]} to {loads[-1]}."


def _table(broker: str, rows: dict[str, Any]) -> list[str]:
    turns = broker != KAFKA
    heads = ["attack", "s", *(["turns > 20, > 100, worst ms"] if turns else [])]
    heads += ["honest: Metadata, anything, worst ms", "memory MB", "descriptors", "verdict"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name in sorted(rows, key=_place):
        lines.append(f"| {' | '.join(_cells(name, rows[name], turns))} |")
    return lines


def _cells(name: str, row: dict[str, Any], turns: bool) -> list[str]:
    figures = row["figures"]

    def some(*names: str) -> str:
        return ", ".join(_number(figures.get(one)) for one in names)

    cells = [f"`{name}`", some("seconds")]
    if turns:
        cells.append(some("turns_over_20_ms", "turns_over_100_ms", "worst_turn_ms"))
    cells.append(some("worst_probe_ms", "worst_ms"))
    cells.append(some("rss_before_mb", "rss_peak_mb", "rss_after_mb"))
    cells.append(some("descriptors_before", "descriptors_peak", "descriptors_after"))
    problems = row["problems"]
    cells.append("held" if not problems else "**" + problems[0].splitlines()[0][:120].replace("|", "/") + "**")
    return cells


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _place(name: str) -> tuple[bool, int]:
    order = list(load_cases())
    return (name != CONTROL, order.index(name) if name in order else len(order))


def stalled(outcome: Outcome, control: dict[str, float]) -> bool:
    """Whether more turns took over 100 ms than the control run had in the same time."""
    share = control.get("turns_over_100_ms", 0) / max(1.0, control.get("seconds", 1.0))
    figures = outcome.figures
    return figures.get("turns_over_100_ms", 0) > share * figures.get("seconds", 0.0)
