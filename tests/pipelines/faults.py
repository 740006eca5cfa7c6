"""What is struck, in which order and after which pause: drawn from the seed. And whom to strike among Spark's
processes.

    jvm      SIGKILL of the driver's JVM, the executor with it
    driver   SIGKILL of the driver's Python program; its JVM follows when it notices
    worker   SIGKILL of all Python workers, in which the source, the sink or a function of the query runs
    broker   SIGKILL of the broker, and a start on the same data
"""

import random
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple


class Kind(Enum):
    """Which process is killed."""

    JVM = "jvm"
    DRIVER = "driver"
    WORKER = "worker"
    BROKER = "broker"


class Strike(NamedTuple):
    """One fault. `aimed`: in the moment when records of an undecided micro-batch are in the sink's topic."""

    kind: Kind
    pause_s: float
    aimed: bool


def plan(seed: int, kinds: Sequence[Kind], rounds: int, *, always_aimed: bool = False) -> list[Strike]:
    """`rounds` times each kind, shuffled; a pause counts from the time when work goes on after the fault before."""
    draw = random.Random(f"{seed}/faults")
    struck = [kind for kind in kinds for _ in range(rounds)]
    draw.shuffle(struck)
    strikes = []
    for kind in struck:
        aimed = draw.random() < 0.5
        strikes.append(Strike(kind, draw.uniform(0.0, 2.0), aimed or always_aimed))
    return strikes


def _parents() -> dict[int, int]:
    """Process id → its parent's, of all processes. Empty where there is no /proc."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        parents[int(stat.parent.name)] = int(fields[1])
    return parents


def workers_below(pid: int) -> list[int]:
    """The processes at the leaves below one: Spark's Python workers, below its JVM."""
    parents = _parents()
    below, newest = set(), {pid}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest}
        below |= newest
    return sorted(below - {parents[child] for child in below})
