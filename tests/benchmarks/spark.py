"""`python -m tests.benchmarks.spark`: our source and sink beside Spark's own, on our broker and on Apache Kafka.

--families source,sink  only these loads           --rounds 3     counted rounds
--only "100 B, 4"       only titles with this text  --warm-up 1    rounds before, not counted
--brokers page-cache    only this broker            --no-write     print only
--scale 0.1             smaller loads
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.benchmarks import spark_report
from tests.benchmarks.loads import drop
from tests.benchmarks.ratios import Measured
from tests.benchmarks.spark_loads import Bench
from tests.benchmarks.spark_rows import FAMILIES, SparkRow, rows
from tests.benchmarks.targets import KAFKA, PAGE_CACHE, Target, make
from tests.harness.jars import JarsMissing
from tests.spark.session import NotHere, new_session, register_everything

SESSION = {
    "spark.driver.extraJavaOptions": "",
    "spark.driver.memory": "2g",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""The tests' session compiles little, which suits a short life; here the JVM may do its best. Python workers are spoken
to as docs/spark.md advises.
"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-spark ARGS=", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--only", default="")
    parser.add_argument("--brokers", default=f"{PAGE_CACHE},{KAFKA}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--no-write", action="store_true")
    chosen = parser.parse_args()
    chosen.families = [name for name in chosen.families.split(",") if name]
    unknown = set(chosen.families) - set(FAMILIES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    return chosen


def in_turns(bench: Bench, targets: dict[str, Target], row: SparkRow, chosen: argparse.Namespace) -> Measured:
    measured: Measured = {}
    topics = {name: row.prepare(target) for name, target in targets.items()}
    for number in range(-chosen.warm_up, chosen.rounds):
        for candidate in row.candidates:
            if candidate.broker not in targets:
                continue
            target = targets[candidate.broker]
            os.sync()  # What the one before left in the page cache is not to be paid for by this one.
            figures = row.measure(bench, target, candidate, topics[candidate.broker])
            text = ", ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
            print(f"  {row.title:34} {candidate.name:38} {text}{'' if number >= 0 else ' (warm-up)'}", flush=True)
            for figure, value in figures.items() if number >= 0 else ():
                measured.setdefault(row.title, {}).setdefault(candidate.name, {}).setdefault(figure, []).append(value)
    for name, topic in topics.items():
        if topic:
            drop(targets[name].bootstrap, topic)
    return measured


def main() -> int:
    chosen = options()
    began = time.monotonic()
    every = rows(chosen.scale)
    wanted = [row for row in every if row.family in chosen.families and chosen.only in row.title]
    folder = Path(tempfile.mkdtemp(prefix="tallystick-bench-spark-"))
    measured: Measured = {}
    targets: dict[str, Target] = {}
    try:
        for name in chosen.brokers.split(","):
            targets[name] = make(name, folder)
            targets[name].process.start()
        spark = new_session(folder, more=SESSION)
        register_everything(spark)
        for row in wanted:
            measured |= in_turns(Bench(spark, folder), targets, row, chosen)
        spark.stop()
    except (NotHere, JarsMissing) as reason:
        print(reason, file=sys.stderr)
        return 1
    finally:
        for target in targets.values():
            target.close()
        shutil.rmtree(folder, ignore_errors=True)
    _tell(measured, every, chosen, time.monotonic() - began)
    return 0


def _tell(measured: Measured, every: tuple[SparkRow, ...], chosen: argparse.Namespace, seconds: float) -> None:
    about: dict[str, object] = {
        "on": time.strftime("%Y-%m-%d"),
        "rounds": chosen.rounds,
        "scale": chosen.scale,
        "cores": os.cpu_count(),
        "memory GB": round(psutil.virtual_memory().total / 2**30),
        "Python": platform.python_version(),
        "minutes": round(seconds / 60),
    }
    if chosen.no_write:
        print(spark_report.page(measured, every, about))
    else:
        spark_report.save(measured, every, about)
        print("\n".join(spark_report.goals(measured, every)))
        print(f"written: {spark_report.PAGE}")


if __name__ == "__main__":
    sys.exit(main())
