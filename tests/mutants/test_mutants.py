"""That every mutant still applies, and that a fixed sample is noticed, by a story and by a unit test; `make mutants` is
all of them.

The sample has one of each part of the broker, and quick ones only.
"""

import os
import subprocess
import sys

import pytest

from tests.mutants.asking import Verdict
from tests.mutants.mutant import SEEDS, VARIABLE, Change, Stale, changed_code, function_at
from tests.mutants.page import PAGE, page
from tests.mutants.stories import known_stories
from tests.mutants.tables import MUTANTS
from tests.scenarios.language import all_scenarios

SAMPLE = (
    "EndTxn accepts a higher epoch",
    "a retried EndTxn bumps twice",
    "COMPLETE before the markers are durable",
    "a coordinator answers before it is durable",
    "duplicate cache of four",
    "fetch beyond the last stable offset",
    "the order of one cycle is reversed",
    "pending offsets are dropped on reload",
    "answers leave out of order",
)


def test_a_sample_is_noticed() -> None:
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE and "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--narrow", "--unchecked", "--exact", "--jobs", "2", *SAMPLE],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert f"{len(SAMPLE)} of {len(SAMPLE)} noticed" in done.stdout, done.stdout + done.stderr
    assert "no unit test" not in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("name", MUTANTS)
def test_it_applies_and_leaves_no_trace(name: str) -> None:
    """Text that is not there any more makes a mutant that tests nothing."""
    mutant = MUTANTS[name]
    functions = [function_at(change.place) for change in mutant.changes]
    before = [function.__code__ for function in functions]
    with mutant.planted():
        changed = [function.__code__ for function in functions]
        assert all(one.co_code != other.co_code or one != other for one, other in zip(before, changed, strict=True))
    assert [function.__code__ for function in functions] == before


def test_missing_text_is_reported() -> None:
    here = f"{__name__}:test_missing_text_is_reported"
    with pytest.raises(Stale):
        changed_code(function_at(here), [Change(here, "this text is " + "nowhere", "")])
    with pytest.raises(Stale):
        function_at("broker.partitions.partition:Partition.nowhere")


def test_enough_are_planted_and_each_is_on_the_page() -> None:
    assert len(MUTANTS) >= 40
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in MUTANTS if f"| {name} |" not in page] == []
    assert "**nothing**" not in page


def test_each_has_a_story_that_notices_it() -> None:
    stories = {f"scenario {scenario.title}" for scenario in all_scenarios()} | {f"seed {seed}" for seed in range(SEEDS)}
    found = known_stories()
    seen = {mutant.name for mutant in MUTANTS.values() if not mutant.unseen}
    assert set(found) == seen, "run `make mutants`"
    assert set(found.values()) <= stories


def test_a_page_line_stays_until_its_mutant_is_reexamined() -> None:
    one, other = (MUTANTS[name] for name in SAMPLE[:2])
    before = page([Verdict(one, "seed 3", "", "", "", 0.0), Verdict(other, "", "", "", "", 0.0)], "")
    after = page([Verdict(other, "scenario A | B", "", "x", "x.py::test_y[1]", 0.0)], before)
    assert "2 planted, 1 noticed by a story: 0 by a scenario, 1 by a seed; 0 by a unit test alone, 0 by one" in before
    assert "2 planted, 2 noticed by a story: 1 by a scenario, 1 by a seed; 0 by a unit test alone, 1 by one" in after
    assert f"| {one.name} | {one.imitates} | simulation, seed 3 |  |\n" in after
    assert f"| {other.name} | {other.imitates} | A \\| B | `test_y` |\n" in after
    assert page([], after) == after


def test_mutants_without_a_story_count_when_their_test_notices() -> None:
    mutant = next(mutant for mutant in MUTANTS.values() if mutant.unseen)
    assert Verdict(mutant, "", "", "a test", "", 0.0).noticed
    assert not Verdict(mutant, "", "", "", "", 0.0).noticed
    assert not Verdict(MUTANTS[SAMPLE[0]], "", "", "a test", "", 0.0).noticed


def test_each_has_something_that_is_expected_to_notice_it() -> None:
    assert [mutant.name for mutant in MUTANTS.values() if not mutant.caught_by or not mutant.imitates] == []
    assert set(SAMPLE) <= set(MUTANTS)
