"""`python -m tests.benchmarks.spark_source`: rows/s of format kafka-arrow beside Spark's own source, in turns, on the
same topic of the same broker.

--rows 1000000  --size 100  --partitions 4  --rounds 3  --codec none  --target page-cache
--stream  --varied  --columns "value BINARY"
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from spark_connector.source.kafka_arrow import KafkaArrow
from tests.benchmarks.targets import MAKERS, Target, make
from tests.harness.confluent import make_topic
from tests.harness.jars import JarsMissing
from tests.spark.session import NotHere, new_session

Figures = dict[str, list[float]]
GOAL = 1.5
STOCK, TUNED, OURS = "stock", "stock, max.poll.records=10000", "kafka-arrow"


def chosen_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--varied", action="store_true", help="values of different sizes, the same on average")
    parser.add_argument("--target", default="page-cache", choices=list(MAKERS))
    parser.add_argument("--stream", action="store_true", help="availableNow in five batches, not one batch read")
    parser.add_argument("--columns", default="", help="a schema for kafka-arrow: only these columns are made")
    return parser.parse_args()


def fill(bootstrap: str, options: argparse.Namespace) -> str:
    topic = make_topic(bootstrap, f"rows-{options.size}-{options.partitions}", options.partitions)
    sender = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1 << 19,
            "compression.codec": options.codec,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    source = random.Random(1)
    pool = source.randbytes(1 << 20)
    for number in range(options.rows):
        size = options.size + (source.randrange(-options.size // 10, options.size // 10 + 1) if options.varied else 0)
        at = number * 61 % (len(pool) - size)
        while True:
            try:
                sender.produce(topic, pool[at : at + size], b"%08d" % number, partition=number % options.partitions)
                break
            except BufferError:
                sender.poll(0.05)
    assert sender.flush(300) == 0
    return topic


def reads(spark: Any, bootstrap: str, topic: str, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """What is measured, by name: each is a function that reads the whole topic."""

    def reader(name: str, **more: str) -> Callable[[], None]:
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | more
        source = (spark.readStream if options.stream else spark.read).format(name).options(**given)
        if options.columns and name == "kafka-arrow":
            source = source.schema(options.columns)

        def batch() -> None:
            source.load().write.format("noop").mode("overwrite").save()

        def stream() -> None:
            checkpoint = tempfile.mkdtemp(dir=scratch)
            limited = source.option("maxOffsetsPerTrigger", str(max(1, options.rows // 5)))
            writer = limited.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(600), "the query did not end"

        return stream if options.stream else batch

    return {
        STOCK: reader("kafka"),
        TUNED: reader("kafka", **{"kafka.max.poll.records": "10000"}),
        OURS: reader("kafka-arrow"),
    }


def cpu_seconds(broker_pid: int) -> dict[str, float]:
    """Of the JVM, and of the Python workers below it; not of the broker."""
    used = {"JVM": 0.0, "Python": 0.0}
    for process in psutil.Process().children(recursive=True):
        try:
            times, kind = process.cpu_times(), "JVM" if "java" in process.name() else "Python"
        except psutil.NoSuchProcess:
            continue
        if process.pid != broker_pid:
            used[kind] += times.user + times.system
    return used


def measure(spark: Any, target: Target, options: argparse.Namespace, scratch: Path) -> tuple[Figures, Figures]:
    bootstrap = target.bootstrap
    topic = fill(bootstrap, options)
    candidates = reads(spark, bootstrap, topic, options, scratch)
    for name in ("kafka", "kafka-arrow"):
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        found = spark.read.format(name).options(**given).load().count()
        assert found == options.rows, f"{name} sees {found} of {options.rows} rows"
    figures: Figures = {name: [] for name in candidates}
    costs: Figures = {name: [] for name in candidates}
    for number in range(options.rounds + 1):
        for name, read in candidates.items():
            began, used = time.perf_counter(), cpu_seconds(target.process.pid)
            read()
            if number:
                figures[name].append(options.rows / (time.perf_counter() - began))
                now = cpu_seconds(target.process.pid)
                parts = {kind: (now[kind] - used[kind]) / options.rows * 1e6 for kind in used}
                costs[name].append(sum(parts.values()))
                split = ", ".join(f"{kind} {microseconds:.2f}" for kind, microseconds in parts.items())
                told = f"{figures[name][-1] / 1000:8.0f} k rows/s, CPU µs per row: {split}"
                print(f"  {name:32} {told}", flush=True)
    return figures, costs


def main() -> int:
    options = chosen_options()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-spark-"))
    try:
        target = make(options.target, folder)
        target.process.start()
        try:
            spark = new_session(folder)
            spark.dataSource.register(KafkaArrow)
            figures, costs = measure(spark, target, options, folder)
            spark.stop()
        finally:
            target.close()
    except (NotHere, JarsMissing) as reason:
        print(reason, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, value in medians.items():
        cost = statistics.median(costs[name])
        print(
            f"{name:34} {value / 1000:8.0f} k rows/s, stock × {value / medians[STOCK]:.2f}; {cost:.2f} CPU µs per row"
        )
    ratio = medians[OURS] / medians[STOCK]
    print(f"goal: at least {GOAL} × the stock source; {'reached' if ratio >= GOAL else 'missed'}: {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
