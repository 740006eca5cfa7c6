"""All mutants by name: ours, and those that the simulation keeps beside it."""

from tests.mutants.mutant import Mutant
from tests.mutants.tables import (
    ahead,
    answers,
    consumer_groups,
    consumer_members,
    coordinator,
    counted,
    disk,
    fencing,
    groups,
    logs,
    markers,
    moments,
    offsets,
    partitions,
    producers,
    reading,
    shares,
    simulated,
    streams_groups,
    turns,
)

MUTANTS: dict[str, Mutant] = {}
for _mutant in (
    *fencing.MUTANTS,
    *coordinator.MUTANTS,
    *markers.MUTANTS,
    *producers.MUTANTS,
    *partitions.MUTANTS,
    *logs.MUTANTS,
    *disk.MUTANTS,
    *ahead.MUTANTS,
    *moments.MUTANTS,
    *groups.MUTANTS,
    *consumer_groups.MUTANTS,
    *consumer_members.MUTANTS,
    *streams_groups.MUTANTS,
    *shares.MUTANTS,
    *offsets.MUTANTS,
    *answers.MUTANTS,
    *reading.MUTANTS,
    *counted.MUTANTS,
    *turns.MUTANTS,
    *simulated.MUTANTS,
):
    assert _mutant.name not in MUTANTS, f"two mutants are called {_mutant.name!r}"
    MUTANTS[_mutant.name] = _mutant
