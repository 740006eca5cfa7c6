"""All defects of nodes over a store, by line."""

from tests.mutants.mutant import Mutant
from tests.mutants.over_a_store import engines, nodes, reading, sql_commits, sql_lives, sql_objects
from tests.mutants.over_a_store.lines import Line

ALL: tuple[tuple[Line, Mutant], ...] = (
    *sql_commits.MUTANTS,
    *sql_lives.MUTANTS,
    *sql_objects.MUTANTS,
    *engines.MUTANTS,
    *reading.MUTANTS,
    *nodes.MUTANTS,
)
MUTANTS: dict[str, Mutant] = {mutant.name: mutant for _, mutant in ALL}
