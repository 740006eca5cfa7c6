"""One defect against the tests that may notice it, the quickest first.

The most special unit tests, the type checker, the scenarios and seeds that reach its line, those of nodes over a store,
the other unit tests that reach it, then a thousand seeds.
"""

import contextlib
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutants.asking import ask
from tests.mutants.at_random.draw import code_with, inner_codes
from tests.mutants.at_random.reach import HERE, OVER_A_STORE, Reach
from tests.mutants.at_random.record import ASKED, AT_IMPORT, Verdict, why_equivalent
from tests.mutants.at_random.source import PROJECT, Defect, text_of
from tests.mutants.catchers import UNNOTICED
from tests.mutants.mutant import Mutant, function_at

AT_ONCE = 100
"""Tests that are asked first: those that reach the fewest lines."""
FEW_SCENARIOS, FEW_SEEDS, FEW_OVER_A_STORE = 60, 20, 5
MORE_SEEDS = 1000
PATIENCE, MORE_PATIENCE = 180.0, 1200.0
"""Seconds. A defect that makes one of them go round for ever is noticed, too."""


def tried(defect: Defect, reach: Reach, *, asked: str = "all") -> Verdict:
    """What noticed it, or that nothing did. `asked`: `few` (neither broad tests nor all stories), `quick` (all but the
    thousand seeds), `all`. The thousand seeds take as long as fifty defects that are noticed: they are spared what is
    known to be equivalent."""
    few = asked == "few"
    if reach.at_import:
        return Verdict.of(defect, "", AT_IMPORT, 0.0)
    began = time.monotonic()
    code = code_with(defect)
    mutant = Mutant(defect.name, "", plant=lambda: given(defect.place, code))
    tests, others = ([" ".join(some)] if some else [] for some in (reach.tests[:AT_ONCE], reach.tests[AT_ONCE:]))
    kinds: tuple[tuple[str, Callable[[], str]], ...] = (
        ("test", lambda: _asked(tests, mutant, PATIENCE)),
        ("types", lambda: _types(defect)),
        ("scenario", lambda: _asked(reach.scenarios[: FEW_SCENARIOS if few else None], mutant, PATIENCE)),
        ("seed", lambda: _asked(reach.seeds[: FEW_SEEDS if few else None], mutant, PATIENCE)),
        ("seed", lambda: _asked(reach.over_a_store[: FEW_OVER_A_STORE if few else None], mutant, PATIENCE)),
        ("test", lambda: _asked(others, mutant, MORE_PATIENCE)),
    )
    for kind, ask_them in kinds[:-1] if few else kinds:
        if said := ask_them():
            return Verdict.of(defect, kind, said, time.monotonic() - began)
    unnoticed = Verdict.of(defect, "", ASKED[asked], time.monotonic() - began)
    if asked != "all" or why_equivalent(unnoticed):
        return unnoticed
    said = _asked([f"simulation {MORE_SEEDS}"], mutant, MORE_PATIENCE)
    return Verdict.of(defect, "seed" if said else "", said, time.monotonic() - began)


def _asked(catchers: Sequence[str], mutant: Mutant, seconds: float) -> str:
    """What was said by the first that notices the defect, and has nothing to say without it."""
    while catchers:
        status, said = ask(catchers, mutant, seconds)
        if status == UNNOTICED:
            return ""
        spoke = _catcher_of(said)
        if ask([spoke] if spoke else catchers, None, seconds)[0] == UNNOTICED:
            return said or f"ended with {status}"
        catchers = [one for one in catchers if one != spoke] if spoke in catchers else []
    return ""


def _catcher_of(said: str) -> str | None:
    """The one that spoke. None where that cannot be seen: it did not come to an end."""
    if said.partition(" ")[0] in ("seed", *OVER_A_STORE):
        return said.partition(":")[0]
    if said.startswith("scenario "):
        return said.partition(" | ")[0]
    return said.partition("[")[0].removeprefix("tests/") if "::" in said else None


def _types(defect: Defect) -> str:
    """What `make lint` would say."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as changed:
        changed.write(text_of(defect) + "\n")  # mypy takes a text of the old length for the one that it has cached
        changed.flush()
        return type_error("--shadow-file", defect.path, changed.name)


def type_error(*arguments: str) -> str:
    """The first one that mypy finds in the whole code, or nothing."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(HERE / "mypy"), *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    lines = [Path(line).name for line in done.stdout.splitlines() if ": error: " in line]
    return lines[0] if lines else ""


@contextlib.contextmanager
def given(place: str, code: CodeType) -> Iterator[None]:
    """Functions that it made before, such as the guards that are made at import, get the defect too."""
    function = function_at(place)
    right = function.__code__
    made = _changed_inside(right, code)
    if made:
        gc.unfreeze()  # what is frozen is not searched
    live = [one for one in gc.get_referrers(*made) if isinstance(one, FunctionType)] if made else []
    with contextlib.ExitStack() as stack:
        for one, its in [(function, code), *((one, made[one.__code__]) for one in live)]:
            stack.callback(setattr, one, "__code__", one.__code__)
            one.__code__ = its
        yield


def _changed_inside(right: CodeType, changed: CodeType) -> dict[CodeType, CodeType]:
    """Each code inside a function → what it is with the defect. Nothing where the defect adds a function or takes one
    away."""
    before, after = list(inner_codes(right)), list(inner_codes(changed))
    if [(one.co_qualname, one.co_freevars) for one in before] != [(one.co_qualname, one.co_freevars) for one in after]:
        return {}
    return dict(zip(before, after, strict=True))
