"""`python -m tests.benchmarks`: run rows in turns on all brokers, write docs/benchmarks.md and docs/benchmarks.json.

--rows produce,txn   only these families        --targets durable,kafka   only these brokers
--rounds 3           counted rounds             --scale 0.1               smaller loads
--no-write           print only
"""

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.benchmarks import report
from tests.benchmarks.loads import drop, produce
from tests.benchmarks.rows import FAMILIES, MEMORY_IDLE, MEMORY_LOADED, RECOVERY, RESTART, ROWS, START, Row
from tests.benchmarks.targets import MAKERS, PAGE_CACHE, TITLES, Target, make, timed_start
from tests.harness.jars import JarsMissing


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--rows", default=",".join(FAMILIES), help=f"families of rows: {', '.join(FAMILIES)}")
    parser.add_argument("--targets", default=",".join(MAKERS), help=f"brokers: {', '.join(MAKERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that are not counted")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--recovery-gb", type=float, default=5.0)
    parser.add_argument("--no-write", action="store_true")
    chosen = parser.parse_args()
    chosen.rows = [name for name in chosen.rows.split(",") if name]
    chosen.targets = [name for name in chosen.targets.split(",") if name]
    unknown = set(chosen.rows) - set(FAMILIES) | set(chosen.targets) - set(MAKERS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return chosen


def note(measured: report.Measured, title: str, target: str, figures: dict[str, float]) -> None:
    for figure, value in figures.items():
        measured.setdefault(title, {}).setdefault(target, {}).setdefault(figure, []).append(value)


def show(title: str, target: str, figures: dict[str, float]) -> None:
    told = ", ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
    print(f"  {title:58} {TITLES[target]:26} {told}", flush=True)


def in_turns(targets: list[Target], rows: list[Row], chosen: argparse.Namespace, measured: report.Measured) -> None:
    for row in rows:
        for number in range(chosen.warm_up + chosen.rounds):
            for target in targets:
                figures = row.measure(target, chosen.scale)
                if number >= chosen.warm_up:
                    note(measured, row.title, target.name, figures)
                    show(row.title, target.name, figures)
    for target in targets:
        if rows:
            figures = {"MB": target.resident_mb()}
            note(measured, MEMORY_LOADED, target.name, figures)
            show(MEMORY_LOADED, target.name, figures)


def starts(names: list[str], rounds: int, folder: Path, measured: report.Measured) -> None:
    """Each broker alone: an orderly start on a folder it knows, a start after kill -9, and its memory at rest."""
    for name in names:
        target = make(name, folder / "starts")
        try:
            target.process.start()
            for _ in range(rounds):
                target.process.stop(seconds=60)
                figures = {"ms": timed_start(target)}
                note(measured, START, name, figures)
                show(START, name, figures)
                time.sleep(3)
                note(measured, MEMORY_IDLE, name, {"MB": target.resident_mb()})
                target.process.kill()
                figures = {"ms": timed_start(target)}
                note(measured, RESTART, name, figures)
                show(RESTART, name, figures)
            show(MEMORY_IDLE, name, {"MB": statistics.median(measured[MEMORY_IDLE][name]["MB"])})
        finally:
            target.close()


def recovery(gigabytes: float, rounds: int, folder: Path, measured: report.Measured) -> None:
    """kill -9 with a long log, against the same with an empty one: until the first produce is acknowledged."""
    for size in (0.0, gigabytes):
        target = make(PAGE_CACHE, folder / f"recovery-{size:g}")
        try:
            target.process.start()
            topic, _ = produce(target.bootstrap, 10_000, max(100, int(size * 1e5)))
            for _ in range(rounds):
                target.process.kill()
                began = time.perf_counter()
                timed_start(target)
                sender = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 0})
                sender.produce(topic, b"first", partition=0)
                assert sender.flush(60) == 0
                figures = {"ms": 1000 * (time.perf_counter() - began)}
                note(measured, f"{RECOVERY}, {size:g} GB in the log", PAGE_CACHE, figures)
                show(f"{RECOVERY}, {size:g} GB in the log", PAGE_CACHE, figures)
            drop(target.bootstrap, topic)
        finally:
            target.close()


def main() -> int:
    chosen = options()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-bench-"))
    measured: report.Measured = {}
    targets: list[Target] = []
    try:
        if "start" in chosen.rows:
            starts(chosen.targets, chosen.rounds, folder, measured)
        if "recovery" in chosen.rows:
            recovery(chosen.recovery_gb, chosen.rounds, folder, measured)
        rows = [row for row in ROWS if row.family in chosen.rows]
        if rows:
            targets += [make(name, folder) for name in chosen.targets]
            for target in targets:
                target.process.start()
            in_turns(targets, rows, chosen, measured)
    except JarsMissing as reason:
        print(
            f"Apache Kafka cannot be had ({reason}); measure us alone with --targets durable,page-cache",
            file=sys.stderr,
        )
        return 1
    finally:
        for target in targets:
            target.close()
        shutil.rmtree(folder, ignore_errors=True)
    if not chosen.no_write:
        about = {
            "on": time.strftime("%Y-%m-%d"),
            "cores": os.cpu_count(),
            "Python": platform.python_version(),
            "rounds": chosen.rounds,
            "scale": chosen.scale,
        }
        report.save(measured, about)
        print(f"written: {report.PAGE.name}, {report.JSON.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
