"""`python -m tests.benchmarks`: run rows in turns on all brokers, write docs/benchmarks.md and docs/benchmarks.json.

--rows produce,txn   only these families        --targets durable,kafka   only these brokers
--rounds 3           counted rounds             --scale 0.1               smaller loads
--no-write           print only                 --warm-up 2               rounds before, not counted
--recovery-gb 5      the long log of "recovery"
--compaction-gb 1    what "compaction" compacts
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

from tests.benchmarks import acls, compaction, footprint, report, tls, watching
from tests.benchmarks.footprint import Note
from tests.benchmarks.loads import Figures
from tests.benchmarks.rows import FAMILIES, MEMORY_LOADED, ROWS, Row
from tests.benchmarks.targets import MAKERS, RIVALS, TITLES, Target, make
from tests.harness.jars import JarsMissing


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--rows", default=",".join(FAMILIES), help=f"families of rows: {', '.join(FAMILIES)}")
    parser.add_argument("--targets", default=",".join(MAKERS), help=f"brokers: {', '.join(MAKERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that are not counted")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--recovery-gb", type=float, default=5.0)
    parser.add_argument("--compaction-gb", type=float, default=1.0)
    parser.add_argument("--no-write", action="store_true")
    chosen = parser.parse_args()
    chosen.rows = [name for name in chosen.rows.split(",") if name]
    chosen.targets = [name for name in chosen.targets.split(",") if name]
    unknown = set(chosen.rows) - set(FAMILIES) | set(chosen.targets) - set(MAKERS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return chosen


def noting(measured: report.Measured) -> Note:
    def note(title: str, target: str, figures: Figures) -> None:
        for figure, value in figures.items():
            measured.setdefault(title, {}).setdefault(target, {}).setdefault(figure, []).append(value)
        text = ", ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
        print(f"  {title:58} {TITLES[target]:26} {text}", flush=True)

    return note


def in_turns(targets: list[Target], rows: list[Row], chosen: argparse.Namespace, note: Note) -> None:
    for row in rows:
        for number in range(-chosen.warm_up, chosen.rounds):
            for target in targets:
                os.sync()  # what the one before left in the page cache is not to be paid for by this one's syncs
                figures = row.measure(target, chosen.scale)
                if number >= 0:
                    note(row.title, target.name, figures)
    for target in targets:
        note(MEMORY_LOADED, target.name, {"MB": target.resident_mb()})


def singles(chosen: argparse.Namespace, folder: Path, note: Note) -> None:
    """What is not measured in turns."""
    if "start" in chosen.rows:
        footprint.starts(chosen.targets, chosen.rounds, folder, note)
    if "recovery" in chosen.rows:
        ours = [name for name in chosen.targets if name in RIVALS]
        footprint.recovery(ours, chosen.recovery_gb, chosen.rounds, folder, note)
    if "producers" in chosen.rows:
        footprint.producers(folder, note)
        footprint.transactional_ids(folder, note)
    if "compaction" in chosen.rows:
        compaction.compactions(chosen.targets, chosen.compaction_gb, chosen.rounds, folder, note)
    if "acls" in chosen.rows:
        acls.decisions(chosen.rounds, note)
        acls.producing(chosen.rounds, chosen.scale, folder, note)
    if "tls" in chosen.rows:
        tls.over_tls(chosen.targets, chosen.rounds, chosen.scale, folder, note)
    if "watching" in chosen.rows:
        watching.watching(chosen.rounds, chosen.scale, folder, note)


def main() -> int:
    chosen = options()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-bench-"))
    measured: report.Measured = {}
    note = noting(measured)
    targets: list[Target] = []
    try:
        singles(chosen, folder, note)
        rows = [row for row in ROWS if row.family in chosen.rows]
        if rows:
            targets += [make(name, folder) for name in chosen.targets]
            for target in targets:
                target.process.start()
            in_turns(targets, rows, chosen, note)
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
            "command": "make bench" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else ""),
            "on": time.strftime("%Y-%m-%d"),
            "cores": os.cpu_count(),
            "memory GB": round(psutil.virtual_memory().total / 2**30),
            "Python": platform.python_version(),
            "rounds": chosen.rounds,
            "scale": chosen.scale,
        }
        report.save(measured, about)
        print(f"written: {report.PAGE.name}, {report.JSON.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
