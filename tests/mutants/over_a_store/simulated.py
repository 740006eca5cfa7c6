"""Defects that the tests of the simulation keep beside them, by line. Each has its own test, in every run of them."""

from tests.mutants.over_a_store.lines import Line
from tests.simulation import test_several_nodes, test_stored

STORED: dict[str, Line] = {
    "what was given up passes for made": Line.IN_THE_COMMIT,
    "what was made passes for given up": Line.IN_THE_COMMIT,
    "records are visible before they are committed": Line.BEFORE_THE_PUT,
    "what waits for its commit is forgotten": Line.IN_THE_COMMIT,
    "a start moves without what makes it possible": Line.AFTER_THE_COMMIT,
    "what does not come passes for brought": Line.BEFORE_THE_PUT,
    "what is ahead passes for what is wanted": Line.AHEAD,
}
SEVERAL: dict[str, Line] = {
    "who is over commits": Line.STANDS_STILL,
    "what was refused by the store is acknowledged from memory": Line.TWO_OWNERS,
    "a marker that was refused passes for written": Line.COORDINATOR,
    "a batch passes without the coordinator": Line.BETWEEN_NODES,
    "a claim under the epoch of another life is good": Line.TWO_OWNERS,
    "who was replaced goes on reading": Line.STANDS_STILL,
    "what is undecided is shown near": Line.BETWEEN_NODES,
    "a later epoch of a share partition is always passed": Line.BETWEEN_NODES,
    "near nothing is known of what was aborted": Line.BETWEEN_NODES,
}
BY_TABLE = ((test_stored.DEFECTS, STORED), (test_several_nodes.DEFECTS, SEVERAL))


def without_a_line() -> list[str]:
    """Defects of the simulation that are of no line yet, and lines of defects that are gone."""
    return [name for defects, lines in BY_TABLE for name in sorted(defects.keys() ^ lines.keys())]


def by_line(line: Line) -> list[tuple[str, str]]:
    """Defects of a line, and who notices each."""
    found = [(name, "the simulation over a store") for name, of in STORED.items() if of is line]
    for name, of in SEVERAL.items():
        if of is line and name in test_several_nodes.DEFECTS:
            _, seeds = test_several_nodes.DEFECTS[name]
            found.append((name, f"the simulation of several nodes, {_seeds(seeds)}"))
    return found


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}"
