"""Which tests, scenarios and seeds reach a line: measured once for the code as it is, by coverage with contexts.

What does not reach a line cannot notice a defect in it, and need not be run.
"""

import hashlib
import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage

from tests.mutants.at_random.source import PROJECT, Defect, files
from tests.mutants.mutant import SEEDS

HERE = PROJECT / ".mutants-at-random"
TESTS = ("tests/unit", "tests/property", "tests/much")
_UNIT, _STORIES, _NODES = "unit", "stories", "nodes"
OVER_A_STORE = {"nodes": 30, "stored": 20}
"""How many seeds of several nodes over one store, and of one node over it, are asked of what they reach."""
_IMPORT = "import"
"""The context of what runs when the code is imported."""


class TestsFail(Exception):
    """Without any defect."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Of one line: tests as pytest names them, the most special first; scenarios by title; seeds, and those over a
    store."""

    tests: Sequence[str]
    scenarios: Sequence[str]
    seeds: Sequence[str]
    over_a_store: Sequence[str] = ()
    at_import: bool = False
    """It runs when its module is imported, and never again: what is planted later changes nothing."""


class Map:
    """All lines, out of the three files that `measured` wrote.

    Not to be called in a forked process: there, `CoverageData` begins its file anew.
    """

    def __init__(self, folder: Path) -> None:
        self._data = []
        for name in (_UNIT, _STORIES, _NODES):
            data = coverage.CoverageData(basename=str(folder / name))
            data.read()
            self._data.append(data)
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._breadth: dict[str, int] = {}
        for data in self._data:
            for path in data.measured_files():
                for contexts in data.contexts_by_lineno(path).values():
                    for context in contexts:
                        self._breadth[context] = self._breadth.get(context, 0) + 1

    def of(self, defect: Defect) -> Reach:
        """The tests that reach the line; of a statement over several lines, the first recorded line counts."""
        path = str(PROJECT / defect.path)
        if path not in self._lines:
            found: dict[int, list[str]] = {}
            for data in self._data:
                for line, contexts in data.contexts_by_lineno(path).items():
                    found.setdefault(line, []).extend(context for context in contexts if context)
            self._lines[path] = found
        lines = self._lines[path]
        at = next((line for line in range(defect.line, defect.first_line - 1, -1) if line in lines), None)
        contexts = sorted(lines.get(at, ()) if at else (), key=lambda context: self._breadth[context])
        return Reach(
            [test for context in contexts if (test := _test_of(context))],
            [context for context in contexts if context.startswith("scenario ")],
            [context for context in contexts if context.startswith("seed ")],
            [context for context in contexts if context.partition(" ")[0] in OVER_A_STORE],
            at_import=set(lines.get(defect.line, ())) == {_IMPORT},
        )


def measured() -> Map:
    """For the code as it is: measured now, or before. Raises `TestsFail`."""
    folder = HERE / f"reach-{fingerprint()}"
    if not (folder / "whole").exists():
        folder.mkdir(parents=True, exist_ok=True)
        print("measuring what tests and stories reach, once for this state of the code", flush=True)
        command = [sys.executable, "-m", "tests.mutants.at_random.reach"]
        kinds = (_UNIT, _STORIES, _NODES)
        measuring = [subprocess.Popen([*command, what, str(folder / what)], cwd=PROJECT) for what in kinds]
        statuses = [one.wait() for one in measuring]
        if any(statuses):
            raise TestsFail
        (folder / "whole").touch()
    return Map(folder)


def main(what: str, target: str) -> int:
    """In a process of its own: nothing that is measured has been imported yet."""
    sources = sorted({str(PROJECT / path) for _, path in files()})
    measuring = coverage.Coverage(data_file=target, include=sources, config_file=False, context=None, branch=True)
    if what == _UNIT:
        measuring.set_option("run:dynamic_context", "test_function")
    measuring.start()
    failed = _unit() if what == _UNIT else {_STORIES: _stories, _NODES: _over_a_store}[what](measuring)
    measuring.stop()
    measuring.save()
    return failed


def _unit() -> int:
    import pytest

    return int(pytest.main(["-q", "-x", "--tb=short", "-p", "no:xdist", "--hypothesis-seed=0", *TESTS]))


def _stories(measuring: coverage.Coverage) -> int:
    from tests.scenarios.language import all_scenarios
    from tests.scenarios.places import virtual
    from tests.simulation.plan import draw
    from tests.simulation.simulation import run

    _import_all(measuring)
    for scenario in all_scenarios():
        measuring.switch_context(f"scenario {scenario.title}")
        for version in scenario.versions:
            virtual.play(scenario, version)
    for seed in range(SEEDS):
        measuring.switch_context(f"seed {seed}")
        if violations := run(draw(seed)).violations:
            print(f"seed {seed} fails without any defect: {violations[0]}")
            return 1
    return 0


def _over_a_store(measuring: coverage.Coverage) -> int:
    from tests.simulation.nodes.run import run_several
    from tests.simulation.simulation import run
    from tests.simulation.stored import draw_line, draw_stored

    _import_all(measuring)
    for kind, seeds in OVER_A_STORE.items():
        for seed in range(seeds):
            measuring.switch_context(f"{kind} {seed}")
            line = draw_line(seed)
            result = run_several(seed, line=line) if kind == "nodes" else run(draw_stored(seed), line=line)
            if result.violations:
                print(f"{kind} {seed} fails without any defect: {result.violations[0]}")
                return 1
    return 0


def _import_all(measuring: coverage.Coverage) -> None:
    measuring.switch_context(_IMPORT)
    for _, path in files():
        importlib.import_module(path.removesuffix(".py").replace("/", "."))


def _test_of(context: str) -> str:
    """`tests.unit.x.test_y.test_z` → `unit/x/test_y.py::test_z`"""
    parts = context.split(".")
    for at in range(len(parts) - 1, 0, -1):
        if (path := PROJECT.joinpath(*parts[:at]).with_suffix(".py")).is_file():
            return "::".join([str(path.relative_to(PROJECT / "tests")), *parts[at:]])
    return ""


def fingerprint() -> str:
    """Of the code and of the tests."""
    text = hashlib.sha256()
    for path in _all_sources():
        text.update(path.read_bytes())
    return text.hexdigest()[:12]


def _all_sources() -> Iterator[Path]:
    for folder in ("protocol", "keystores", "storage", "coordinator", "broker", "tests"):
        yield from sorted(
            path for path in (PROJECT / folder).rglob("*") if path.suffix in (".py", ".txt") and path.is_file()
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
