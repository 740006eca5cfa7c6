"""Loads of Spark's benchmark: a topic read into nothing, rows written into a topic, many small micro-batches."""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from tests.benchmarks.loads import drop, fresh
from tests.benchmarks.targets import Target

Figures = dict[str, float]
PATIENCE_S = 600
BATCH_ROWS = 1000
_DIGITS = 8
_NUMBER = f"lpad(cast(value as string), {_DIGITS}, '0')"
BATCHES_BEFORE = 5
"""Micro-batches of a query that are not counted: the first ones start Python workers and compile."""


@dataclass(frozen=True, slots=True)
class End:
    """A format with its options: one end of a query."""

    format: str
    options: Mapping[str, str]
    tasks: int | None = None
    """Of a sink: how many write; none for as many as there are."""

    def of(self, bootstrap: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": bootstrap, **self.options}


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows of one kind, and over how many partitions they go."""

    size: int
    partitions: int
    rows: int

    @property
    def title(self) -> str:
        size = f"{self.size} B" if self.size < 1000 else f"{self.size // 1000} KB"
        return f"{size}, {self.partitions} partitions"


@dataclass(slots=True)
class Bench:
    """A session and where it may leave files."""

    spark: Any
    scratch: Path

    def read(self, target: Target, topic: str, source: End, rows: int) -> Figures:
        """A batch read of a whole topic into nothing."""
        reader = self.spark.read.format(source.format).options(**source.of(target.bootstrap))
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        return _timed(target, rows, lambda: frame.write.format("noop").mode("overwrite").save())

    def write(self, target: Target, sink: End, shape: Shape) -> Figures:
        """Rows that Spark makes itself, in two tasks, into a fresh topic, in one micro-batch. The rate is the batch's,
        without the start of the query. A row costs next to nothing: a number, and a constant behind it.
        """
        source = self.spark.readStream.format("rate-micro-batch").option("numPartitions", "2")
        made = (
            source.option("rowsPerBatch", str(shape.rows))
            .load()
            .selectExpr(
                f"cast({_NUMBER} as binary) as key",
                f"cast(concat({_NUMBER}, repeat('x', {shape.size - _DIGITS})) as binary) as value",
            )
        )
        return self._one_batch(made, target, sink, shape)

    def copy(self, target: Target, topic: str, source: End, sink: End, shape: Shape) -> Figures:
        """All of a topic into a fresh one, in one micro-batch, without the start of the query."""
        reader = self.spark.readStream.format(source.format).options(**source.of(target.bootstrap))
        rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load().selectExpr("key", "value")
        return self._one_batch(rows, target, sink, shape)

    def _one_batch(self, frame: Any, target: Target, sink: End, shape: Shape) -> Figures:
        topic = fresh(target.bootstrap, shape.partitions)
        batches: list[Any] = []
        try:
            figures = _timed(target, shape.rows, lambda: batches.extend(self._run(frame, target, sink, topic)))
        finally:
            drop(target.bootstrap, topic)
        (batch,) = batches
        assert batch["numInputRows"] == shape.rows, batch
        return figures | {"k rows/s": shape.rows / float(batch["durationMs"]["triggerExecution"])}

    def micro_batches(self, target: Target, topic: str, source: End, sink: End, partitions: int) -> Figures:
        """A stream over a topic in micro-batches of `BATCH_ROWS`, one behind the other; what each of them took."""
        to = fresh(target.bootstrap, partitions)
        reader = self.spark.readStream.format(source.format).options(**source.of(target.bootstrap))
        limited = reader.option("subscribe", topic).option("maxOffsetsPerTrigger", str(BATCH_ROWS))
        rows = limited.option("startingOffsets", "earliest").load().selectExpr("key", "value")
        try:
            batches = self._run(rows, target, sink, to)
        finally:
            drop(target.bootstrap, to)
        counted = batches[BATCHES_BEFORE:]
        return _latencies([float(progress["durationMs"]["triggerExecution"]) for progress in counted])

    def _run(self, frame: Any, target: Target, sink: End, topic: str) -> list[Any]:
        """A stream of all that is there; the progress of each micro-batch with rows."""
        checkpoint = tempfile.mkdtemp(dir=self.scratch)
        given = sink.of(target.bootstrap) | {"topic": topic}
        written = frame if sink.tasks is None else frame.coalesce(sink.tasks)
        writer = written.writeStream.format(sink.format).options(**given)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S), "the query did not end"
        return [progress for progress in query.recentProgress if progress["numInputRows"]]


def fill(bootstrap: str, shape: Shape) -> str:
    """A topic with such rows, spread evenly."""
    topic = fresh(bootstrap, shape.partitions)
    settings = {"enable.idempotence": True, "linger.ms": 20, "batch.size": 1 << 19}
    sender = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000, **settings})
    pool = random.Random(1).randbytes(1 << 20)
    for number in range(shape.rows):
        at = number * 61 % (len(pool) - shape.size)
        value = pool[at : at + shape.size]
        while True:
            try:
                sender.produce(topic, value, b"%08d" % number, partition=number % shape.partitions)
                break
            except BufferError:
                sender.poll(0.05)
    assert sender.flush(PATIENCE_S) == 0
    return topic


def _timed(target: Target, rows: int, work: Callable[[], object]) -> Figures:
    used, began = _cpu_seconds(target.process.pid), time.perf_counter()
    work()
    elapsed, now = time.perf_counter() - began, _cpu_seconds(target.process.pid)
    costs = {f"{kind}, CPU µs per row": (now[kind] - used[kind]) / rows * 1e6 for kind in used}
    return {"k rows/s": rows / elapsed / 1000, **costs}


def _cpu_seconds(broker_pid: int) -> Figures:
    """Of the JVM of Spark, of the Python workers below it, of the broker."""
    used = {"Spark's JVM": 0.0, "Python workers": 0.0, "broker": 0.0}
    broker = psutil.Process(broker_pid)
    for process in (broker, *psutil.Process().children(recursive=True)):
        try:
            times, is_java = process.cpu_times(), "java" in process.name()
        except psutil.NoSuchProcess:
            continue
        if process == broker:
            used["broker"] = times.user + times.system
        elif _is_below_spark(process):
            used["Spark's JVM" if is_java else "Python workers"] += times.user + times.system
    return used


def _is_below_spark(process: psutil.Process) -> bool:
    """Not another broker that waits for its turn."""
    try:
        command = " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    return "org.apache.spark" in command or "pyspark" in command


def _latencies(milliseconds: list[float]) -> Figures:
    ordered = sorted(milliseconds)
    return {
        "p50 ms": statistics.median(ordered),
        "p99 ms": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
    }
