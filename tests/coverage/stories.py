"""All scenarios, in process, and the first seeds of the simulation."""

from tests.scenarios.language import all_scenarios
from tests.scenarios.places import virtual
from tests.simulation.run import run_seeds


def play_all(seeds: int, versions: int = 2) -> None:
    """Whatever they are answered: that is looked at elsewhere. `versions`: in so many kinds of clusters at most."""
    for scenario in all_scenarios():
        for version in scenario.versions[-versions:]:
            virtual.play(scenario, version)
    for seed in range(seeds):
        run_seeds([seed])
