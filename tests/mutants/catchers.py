"""What notices a mutant.

    unit/…/test_x.py::test_y    a test (below tests/), or several; "…/test_x.py" a whole file
    scenario TITLE              one story, in process; "scenarios" all of them
    simulation N                one of the seeds 0 … N-1; "seed N" this one
    nodes 6 17 below 60         these seeds of several nodes over one store, and then those in front of the last number;
                                "stored …" those of one node over a store

Exit status: 0 nothing noticed, 1 noticed, anything else: the catcher itself is broken.
"""

import contextlib
import functools
import importlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn
from unittest import mock

import pytest

from tests.mutants.collected import First, are_collected, first_that_fails, only_one_failure_counts
from tests.mutants.mutant import VARIABLE, Mutant, Stale, function_at, source_of
from tests.mutants.tables import MUTANTS

if TYPE_CHECKING:
    from tests.scenarios.language import Scenario

UNNOTICED, NOTICED, BROKEN, STALE = 0, 1, 3, 4
SECONDS = 300
"""A defect may leave a test waiting for ever: that is noticed, too."""
OVER_A_STORE = ("nodes", "stored")
CALLBACKS = {"scenario": 20_000, "simulation": 400_000}
"""Likewise for a story: several times what the longest takes without a defect."""


def run(catcher: str) -> int:
    """One catcher, in this process. Prints one line of what it found."""
    kind, _, rest = catcher.partition(" ")
    if kind not in ("simulation", "seed", "scenario", "scenarios", *OVER_A_STORE):
        return _pytest([f"tests/{one}" for one in catcher.split()])
    from tests.harness.loop import Scheduler

    is_scenario = kind.startswith("scenario")
    callbacks = CALLBACKS["scenario" if is_scenario else "simulation"] * (2 if kind in OVER_A_STORE else 1)
    with mock.patch.dict(Scheduler.__init__.__kwdefaults__, callbacks=callbacks):
        if is_scenario:
            return _scenarios(rest)
        if kind in OVER_A_STORE:
            return _over_a_store(kind, rest)
        return _simulation(range(int(rest), int(rest) + 1) if kind == "seed" else range(int(rest)))


def _simulation(seeds: Sequence[int]) -> int:
    from tests.simulation.plan import draw
    from tests.simulation.simulation import run as run_plan

    for seed in seeds:
        try:
            violations = run_plan(draw(seed)).violations
        except Exception as error:  # whatever it is, it is what this seed found
            violations = [repr(error)]
        if violations:
            print(f"seed {seed}: {violations[0]}")
            return NOTICED
    return UNNOTICED


def _over_a_store(kind: str, which: str) -> int:
    """As drawn, and without a bucket: what a commit brings along comes sooner."""
    from tests.simulation.nodes.run import run_several
    from tests.simulation.simulation import run as run_plan
    from tests.simulation.stored import draw_line, draw_stored

    first, _, below = which.partition("below ")
    for seed in (*map(int, first.split()), *range(int(below or 0))):
        for line in dict.fromkeys((draw_line(seed), replace(draw_line(seed), bucket=None))):
            try:
                result = run_several(seed, line=line) if kind == "nodes" else run_plan(draw_stored(seed), line=line)
                violations = result.violations
            except Exception as error:  # whatever it is, it is what this seed found
                violations = [repr(error)]
            if violations:
                print(f"{kind} {seed}: {violations[0]}")
                return NOTICED
    return UNNOTICED


@functools.cache
def _all_scenarios() -> "list[Scenario]":
    from tests.scenarios.language import all_scenarios

    return all_scenarios()


def _scenarios(title: str) -> int:
    from tests.scenarios.places import virtual

    stories = [scenario for scenario in _all_scenarios() if title in ("", scenario.title)]
    if not stories:
        print(f"there is no scenario {title!r}")
        return BROKEN
    for scenario in stories:
        for version in scenario.versions:
            try:
                answers = virtual.play(scenario, version)
            except Exception as error:
                print(f"scenario {scenario.title} | {error!r}")
                return NOTICED
            for step, answer in zip(scenario.steps, answers, strict=True):
                if answer != step.answer:
                    print(f"scenario {scenario.title} | {step.text}")
                    return NOTICED
    return UNNOTICED


def _pytest(arguments: list[str]) -> int:
    if are_collected(arguments):
        if failed := first_that_fails(arguments):
            print(failed)
        return NOTICED if failed else UNNOTICED
    first = First()
    only_one_failure_counts()
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main(
            ["-x", "-q", "--tb=no", "--hypothesis-seed=0", f"--timeout={SECONDS // 5}", *arguments], plugins=[first]
        )
    if status not in (0, 1):
        print(f"pytest says {status} of {' '.join(arguments)}")
        return BROKEN
    if status and not first.failed:
        print(f"pytest says {status} of {' '.join(arguments)}, and names no test")
        return BROKEN
    if status:
        print(first.failed)
    return NOTICED if status else UNNOTICED


def warm_up() -> None:
    """Import what catchers import, so that a fork of this process has it."""
    for module in ("hypothesis.stateful", "tests.simulation.simulation", "tests.simulation.plan"):
        importlib.import_module(module)
    importlib.import_module("tests.scenarios.places.virtual")
    _all_scenarios()
    for mutant in MUTANTS.values():
        for change in mutant.changes:
            with contextlib.suppress(Stale):
                source_of(function_at(change.place))


def notice(catchers: Sequence[str], mutant: Mutant | None) -> NoReturn:
    """Plant a mutant, run catchers until one notices it, and end this process with what came of it."""
    status = BROKEN
    try:
        status = _notice(catchers, mutant)
    except BaseException as error:
        print(f"{error!r}")
    finally:
        # Whatever the defect has left running (threads, loops) is not waited for.
        sys.stdout.flush()
        os._exit(status)


def _notice(catchers: Sequence[str], mutant: Mutant | None) -> int:
    with contextlib.ExitStack() as planted:
        try:
            if mutant is not None:
                os.environ[VARIABLE] = mutant.name
                planted.enter_context(mutant.planted())
        except Stale as stale:
            print(stale)
            return STALE
        for catcher in catchers:
            status = run(catcher)
            if status != UNNOTICED:
                return status
    return UNNOTICED
