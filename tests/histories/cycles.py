"""Cycles of dependencies, and which of them Kafka's transactions exclude.

Kafka isolates what a transaction wrote from readers until it is decided, and nothing else:

- Writes of two transactions interleave in partitions as they come (G0), and so a transaction may have written before
  another and read from it in another partition (cycles of ww and wr).
- A poll is no snapshot: it shows what was stable when it came, one partition at a time, and nothing keeps later writes
  from being committed before the reader is (cycles with rw: G-single, G2). Transactions are not serializable.
- Nobody is shown a record before its commit was requested, and a transaction polls before it requests its own. So
  cycles of wr alone, also together with the order in a process and in time, are excluded (G1c).

That is how Jepsen decides for Kafka: G0 is always allowed, G1c where ww takes part; rw is not looked at.
"""

from collections import Counter
from collections.abc import Iterator

from tests.histories.components import components, cycle_through
from tests.histories.graph import PROCESS, REALTIME, RW, WR, WW, Graph

EXCLUDED = {
    "G1c": (WR,),
    "G1c with the order in a process": (WR, PROCESS),
    "G1c with the order in time": (WR, PROCESS, REALTIME),
}
ALLOWED = {"G0": (WW,), "G1c with ww": (WW, WR), "G-single or G2": (WW, WR, RW)}


def excluded(graph: Graph) -> Iterator[tuple[str, str]]:
    """(class, a cycle in words) of each component that there must not be; by the fewest kinds of edges that do."""
    known: set[int] = set()
    for name, kinds in EXCLUDED.items():
        edges = graph.adjacency(kinds)
        for component in components(edges):
            if known.isdisjoint(component):
                known.update(component)
                yield name, described(graph, kinds, cycle_through(edges, component))


def allowed(graph: Graph) -> Counter[str]:
    """How many components with cycles there are of the classes that Kafka allows."""
    found = Counter({name: len(components(graph.adjacency(kinds))) for name, kinds in ALLOWED.items()})
    return +found


def described(graph: Graph, kinds: tuple[str, ...], cycle: list[int]) -> str:
    """A cycle in words. Points of time between two operations are left out."""
    parts = []
    for place, node in enumerate(cycle):
        if node < len(graph.nodes):
            following = cycle[(place + 1) % len(cycle)]
            parts.append(f"{graph.nodes[node]} -{graph.kind_between(node, following, kinds)}->")
    return " ".join(parts)
