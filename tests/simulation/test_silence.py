"""What grows old in a silence is forgotten in its time, over restarts of each kind, and defects there are noticed."""

from random import Random

import pytest

from tests.harness.network import NetworkFaults
from tests.mutants.tables import MUTANTS
from tests.simulation.plan_silence import draw_silence
from tests.simulation.shape import Plan, SilencePlan
from tests.simulation.silence import SILENT
from tests.simulation.simulation import Result, run

SEEDS = range(25)
DEFECTS = (
    "a producer is young again after every start",
    "an orderly end writes no ages down",
    "a snapshot forgets producers at half their time",
    "an id that was only claimed stays for ever",
)


def drawn(seed: int) -> SilencePlan:
    """A silence of its own for each seed."""
    random = Random(f"test {seed}")
    while (silence := draw_silence(random, page_cache=False)) is None:
        pass
    return silence


def calm(seed: int) -> Result:
    """Nothing but a silence."""
    plan = Plan(seed, 0.01, 6000, 0.001, NetworkFaults(delay_s=0.001), "", partitions=2, silence=drawn(seed))
    return run(plan)


def test_each_thing_is_forgotten_in_its_time_and_not_before() -> None:
    """I18, I33, I40: whatever ends of the broker there are before, in and behind the silence."""
    seen: set[str] = set()
    for seed in SEEDS:
        result = calm(seed)
        assert result.violations == [], seed
        seen.update(result.hits)
    assert {f"silence.{what}" for what in SILENT} <= seen


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_noticed(name: str) -> None:
    with MUTANTS[name].planted():
        assert any(calm(seed).violations for seed in SEEDS)
