"""A fixed range of seeds, runs that repeat themselves, and defects that do not go unnoticed.

Iteration over sets of strings is the one thing that a hash seed could change; nothing here relies on it, and the runner
(`python -m tests.simulation`) fixes the seed all the same.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.defects import DEFECTS, planted
from tests.simulation.plan import draw
from tests.simulation.run import first_failure, run_seeds
from tests.simulation.simulation import run

SEEDS = 200
AT_ONCE = 50
SAMPLE = ("last stable offset one too far", "acknowledged before durable", "aborted transactions not told")


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_is_wrong_with(first: int) -> None:
    """I05, I11, I21, I29, I30, I37, I44, I46, I49: whatever happens in these runs, none of the checkers objects."""
    for seed in range(first, first + AT_ONCE):
        (result,) = run_seeds([seed])
        assert result.violations == [], f"python -m tests.simulation --start {seed} --seeds 1"


def test_a_seed_is_a_run() -> None:
    """The same seed gives the same history, bit by bit, in this process and in another."""
    here = [run(draw(7)).digest, run(draw(7)).digest]
    program = "from tests.simulation import plan, simulation; print(simulation.run(plan.draw(7)).digest)"
    there = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.getcwd()},
    )
    assert [*here, there.stdout.strip()] == [here[0]] * 3


@pytest.mark.parametrize("name", SAMPLE)
def test_a_planted_defect_is_noticed(name: str) -> None:
    with planted(name):
        seed, _ = first_failure(DEFECTS[name].seeds)
    assert seed is not None, f"{name} goes unnoticed"
