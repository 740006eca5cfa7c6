"""What became of each defect of a draw, a line of JSON each, and the score that comes of it.

A verdict belongs to a state of the code: one that was noted for another is not taken for this one's.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.at_random.source import PROJECT, ROOMS, Defect

ASKED = {"few": "few were asked", "quick": "the thousand seeds were not asked", "all": ""}
"""How much is asked, the least first, and what is said of a defect that was not noticed by that."""
AT_IMPORT = "runs at import only"
EQUIVALENT = Path(__file__).with_name("equivalent.json")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`by` is the kind of what noticed it: test, scenario, seed, types; "" where nothing did."""

    room: str
    path: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    by: str
    said: str
    seconds: float

    @classmethod
    def of(cls, defect: Defect, by: str, said: str, seconds: float) -> "Verdict":
        place = defect.room, defect.path, defect.function, defect.line, defect.kind
        return cls(*place, defect.before, defect.after, by, said[:200], round(seconds, 1))

    def is_about(self, defect: Defect) -> bool:
        return (self.path, self.function, self.line, self.kind, self.before, self.after) == (
            defect.path,
            defect.function,
            defect.line,
            defect.kind,
            defect.before,
            defect.after,
        )


def read(path: Path) -> list[Verdict]:
    """All that were noted; a line that was cut by a kill is left out."""
    verdicts = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            verdicts.append(Verdict(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return verdicts


def goes_for(verdict: Verdict, asked: str) -> bool:
    """Whether this verdict is that of a run that asks so much."""
    levels = list(ASKED)
    return bool(verdict.by) or verdict.said not in [ASKED[one] for one in levels[: levels.index(asked)]]


def note(path: Path, verdict: Verdict) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(verdict), ensure_ascii=False) + "\n")


def why_equivalent(verdict: Verdict) -> str:
    """The reason that was written down for it, or "": a change of the text ends it. Where a word alone stands for the
    change, `on` is the line that it is on."""
    for entry in json.loads(EQUIVALENT.read_text(encoding="utf-8")):
        if all(entry[name] == getattr(verdict, name) for name in ("path", "function", "before", "after")):
            lines = (PROJECT / verdict.path).read_text(encoding="utf-8").splitlines() if "on" in entry else [""]
            if "on" not in entry or lines[verdict.line - 1].strip() == entry["on"]:
                reason: str = entry["because"]
                return reason
    return ""


def counts(verdict: Verdict) -> bool:
    """Whether it could be noticed: it is not equivalent, and not where nothing runs any more when it is planted."""
    return bool(verdict.by) or not (verdict.said == AT_IMPORT or why_equivalent(verdict))


def report(seed: int, verdicts: Sequence[Verdict]) -> str:
    """The score as a section of docs/mutants.md."""
    lines = [
        "## Defects that nobody chose",
        "",
        f"`make mutants-at-random N={len(verdicts)} SEED={seed}`: automatic changes of the code, each kind with the",
        "same share, drawn by the seed. Asked in this order: the most special unit tests, the type checker, the",
        "scenarios and the seeds below 150 that reach the line, those of nodes over a store, the other unit tests, a",
        "thousand seeds. What is shown to be equivalent does not count, nor what runs at import only: a defect is",
        "planted after that.",
        "",
        "| | drawn | at import only | equivalent | noticed | score | of the true score, 95 % lie in |",
        "|---|---|---|---|---|---|---|",
    ]
    for room in ROOMS:
        if of_room := [verdict for verdict in verdicts if verdict.room == room]:
            lines.append(_row(room, of_room))
    lines += [_row("**all**", verdicts), ""]
    by = {kind: sum(verdict.by == kind for verdict in verdicts) for kind in ("test", "scenario", "seed", "types")}
    lines += ["Noticed first by a " + ", a ".join(f"{kind}: {count}" for kind, count in by.items()) + ".", ""]
    tried = [one for one in verdicts if one.said != AT_IMPORT]
    for title, wanted in (("Not noticed", ""), ("Equivalent", "yes")):
        left = [one for one in tried if not one.by and bool(why_equivalent(one)) == bool(wanted)]
        if left:
            lines += [f"{title}:", "", *(_entry(one) for one in left), ""]
    return "\n".join(lines)


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    noticed, counted = sum(bool(one.by) for one in verdicts), sum(map(counts, verdicts))
    at_import = sum(one.said == AT_IMPORT for one in verdicts)
    equivalent = len(verdicts) - counted - at_import
    low, high = interval(noticed, counted)
    score = f"{noticed / counted:.1%}" if counted else "–"
    return f"| {name} | {len(verdicts)} | {at_import} | {equivalent} | {noticed} | {score} | {low:.1%} to {high:.1%} |"


def _entry(verdict: Verdict) -> str:
    change = f"`{_short(verdict.before)}` → `{_short(verdict.after)}`"
    because = why_equivalent(verdict)
    return f"- `{verdict.path}:{verdict.line}` {verdict.function}: {change}" + (f": {because}" if because else "")


def _short(text: str) -> str:
    one_line = " ".join(text.split()).replace("`", "'")
    return one_line if len(one_line) <= 100 else one_line[:97] + "..."


def interval(noticed: int, of: int) -> tuple[float, float]:
    """Wilson's, at 95 %."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, noticed / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def survivors(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if not verdict.by and counts(verdict)]
