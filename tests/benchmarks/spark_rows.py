"""What Spark's benchmark measures: which loads, with which connector, on which broker, and the goals."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.rows import Goal
from tests.benchmarks.spark_loads import BATCH_ROWS, BATCHES_BEFORE, Bench, End, Figures, Shape, fill
from tests.benchmarks.targets import KAFKA, PAGE_CACHE, Target

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}
STOCK_SOURCE = End("kafka", READ_COMMITTED)
TUNED_SOURCE = End("kafka", READ_COMMITTED | {"kafka.max.poll.records": "10000"})
OUR_SOURCE = End("kafka-arrow", {})
STOCK_SINK = End("kafka", {})
TUNED_SINK = End("kafka", {"kafka.linger.ms": "20", "kafka.batch.size": "262144"})
OUR_SINK = End("kafka-eos", {})
OUR_ONE = End("kafka-eos", {}, tasks=1)
NOWHERE = End("noop", {})
"""What rows cost before anybody writes them."""

RATE, P50, P99 = "k rows/s", "p50 ms", "p99 ms"
COUNTED_BATCHES = 30
COPY = "topic to topic"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to do a load: a name for the table, the broker, and the two ends."""

    name: str
    broker: str
    source: End | None = None
    sink: End | None = None


def _on(broker: str, **ends: End) -> Callable[[str], Candidate]:
    where = {PAGE_CACHE: "Tallystick", KAFKA: "Kafka 4.3.1"}[broker]
    return lambda what: Candidate(f"{what}, {where}", broker, **ends)


STOCK, TUNED, OURS, ALL, ONE, NOOP = "stock", "stock tuned", "ours", "ours, all tasks", "ours, one task", "nowhere"

SOURCES = (
    _on(PAGE_CACHE, source=STOCK_SOURCE)(STOCK),
    _on(PAGE_CACHE, source=TUNED_SOURCE)(TUNED),
    _on(PAGE_CACHE, source=OUR_SOURCE)(OURS),
    _on(KAFKA, source=STOCK_SOURCE)(STOCK),
    _on(KAFKA, source=OUR_SOURCE)(OURS),
)
SINKS = (
    _on(PAGE_CACHE, sink=NOWHERE)(NOOP),
    _on(PAGE_CACHE, sink=STOCK_SINK)(STOCK),
    _on(PAGE_CACHE, sink=TUNED_SINK)(TUNED),
    _on(PAGE_CACHE, sink=OUR_SINK)(ALL),
    _on(PAGE_CACHE, sink=OUR_ONE)(ONE),
    _on(KAFKA, sink=STOCK_SINK)(STOCK),
    _on(KAFKA, sink=OUR_SINK)(ALL),
)
COPIES = (
    _on(PAGE_CACHE, source=STOCK_SOURCE, sink=STOCK_SINK)(STOCK),
    _on(PAGE_CACHE, source=TUNED_SOURCE, sink=TUNED_SINK)(TUNED),
    _on(PAGE_CACHE, source=OUR_SOURCE, sink=OUR_SINK)(ALL),
    _on(PAGE_CACHE, source=OUR_SOURCE, sink=OUR_ONE)(ONE),
    _on(KAFKA, source=STOCK_SOURCE, sink=STOCK_SINK)(STOCK),
    _on(KAFKA, source=OUR_SOURCE, sink=OUR_SINK)(ALL),
)
STREAMS = (
    _on(PAGE_CACHE, source=STOCK_SOURCE, sink=STOCK_SINK)(STOCK),
    _on(PAGE_CACHE, source=STOCK_SOURCE, sink=OUR_SINK)("stock source, our sink"),
    _on(PAGE_CACHE, source=OUR_SOURCE, sink=OUR_SINK)("our source, our sink"),
    _on(PAGE_CACHE, source=OUR_SOURCE, sink=STOCK_SINK)("our source, stock sink"),
    _on(KAFKA, source=STOCK_SOURCE, sink=STOCK_SINK)(STOCK),
)


@dataclass(frozen=True, slots=True)
class SparkGoal:
    """`mode` of the goal is the candidate; `rival` the one it is compared with; `difference` subtracts instead."""

    goal: Goal
    rival: str
    difference: bool = False


def _goal(
    ours: str,
    figure: str,
    bound: str,
    ratio: float,
    rival: str,
    broker: str = "Tallystick",
    *,
    difference: bool = False,
) -> SparkGoal:
    return SparkGoal(Goal(f"{ours}, Tallystick", figure, bound, ratio), f"{rival}, {broker}", difference)


@dataclass(frozen=True, slots=True)
class SparkRow:
    """One load in one shape. `measure(bench, target, candidate, topic)` runs it once."""

    family: str
    shape: Shape
    candidates: tuple[Candidate, ...]
    goals: tuple[SparkGoal, ...]

    @property
    def title(self) -> str:
        return f"{self.family}: {self.shape.title}"

    def prepare(self, target: Target) -> str:
        """The topic that is read; none where rows are made by Spark."""
        return fill(target.bootstrap, self.shape) if self.candidates[0].source is not None else ""

    def measure(self, bench: Bench, target: Target, candidate: Candidate, topic: str) -> Figures:
        if candidate.source is None:
            assert candidate.sink is not None
            return bench.write(target, candidate.sink, self.shape)
        if candidate.sink is None:
            return bench.read(target, topic, candidate.source, self.shape.rows)
        if self.family == COPY:
            return bench.copy(target, topic, candidate.source, candidate.sink, self.shape)
        return bench.micro_batches(target, topic, candidate.source, candidate.sink, self.shape.partitions)


_AS_FAST_AS_ON_KAFKA = _goal(STOCK, RATE, "≥", 1.0, STOCK, "Kafka 4.3.1")
_NO_SLOWER_THAN_ON_KAFKA = _goal(STOCK, P50, "≤", 1.0, STOCK, "Kafka 4.3.1")
_SINK_GOALS = {100: 1.3, 1000: 1.0}
"""Ratio to the tuned stock sink, by the size of a value."""
_COPY_GOALS = (_goal(ALL, RATE, "≥", 2.5, STOCK), _AS_FAST_AS_ON_KAFKA)
_STREAM_GOALS = (
    _goal("stock source, our sink", P50, "≤", 20, STOCK, difference=True),
    _goal("our source, our sink", P50, "≤", 20, STOCK, difference=True),
    _goal("our source, stock sink", P50, "≤", 40, STOCK, difference=True),
    _NO_SLOWER_THAN_ON_KAFKA,
)
_ROWS = {100: 4_000_000, 1000: 1_000_000}
"""Enough for two seconds of work and more: what a query costs whatever it does is measured by small micro-batches."""


def rows(scale: float) -> tuple[SparkRow, ...]:
    """All loads; `scale` makes them smaller."""
    found: list[SparkRow] = []
    for partitions in (4, 12):
        for size, count in _ROWS.items():
            shape = Shape(size, partitions, max(2000, int(count * scale)))
            faster = (_goal(OURS, RATE, "≥", 1.5, STOCK),) if size == 100 else ()
            found.append(SparkRow("source", shape, SOURCES, (*faster, _AS_FAST_AS_ON_KAFKA)))
            of_the_sink = _goal(ALL, RATE, "≥", _SINK_GOALS[size], TUNED)
            found.append(SparkRow("sink", shape, SINKS, (of_the_sink, _AS_FAST_AS_ON_KAFKA)))
            found.append(SparkRow(COPY, shape, COPIES, _COPY_GOALS))
            if size > 100:
                continue  # A thousand rows are few bytes either way.
            batches = BATCHES_BEFORE + max(5, int(COUNTED_BATCHES * scale))
            found.append(SparkRow("micro-batch", Shape(size, partitions, BATCH_ROWS * batches), STREAMS, _STREAM_GOALS))
    return tuple(sorted(found, key=lambda row: list(FAMILIES).index(row.family)))


FAMILIES = {
    "source": "A batch read of the whole topic into nothing, `read_committed`.",
    "sink": "Rows made by Spark in two tasks, into a fresh topic, as one micro-batch. The stock sink writes with both "
    "tasks, at least once; ours in one transaction: with both, as it does by itself, or with one (`coalesce(1)`). "
    "Nowhere is the same query into `noop`: what the rows cost by themselves.",
    COPY: "A whole topic into a fresh one, `read_committed`, as one micro-batch: the stock source into the stock sink, "
    "and `kafka-arrow` into `kafka-eos`: each partition's task writes, or one does (`coalesce(1)`).",
    "micro-batch": f"A stream of micro-batches of {BATCH_ROWS} rows from topic to topic, one behind the other: Spark's "
    "own figure `triggerExecution`.",
}
