"""`python -m tests.benchmarks`: run rows in turns on all brokers, write docs/benchmarks.md and docs/benchmarks.json.

--rows produce,txn   only these families        --targets durable,kafka   only these brokers
--rounds 3           counted rounds             --scale 0.1               smaller loads
--no-write           print only                 --warm-up 2               rounds before, not counted
--recovery-gb 5      the long log of "recovery" --compaction-gb 1         what "compaction" compacts
--compiled           our brokers run the compiled core (decision 0042), from a copy of the tree; a C compiler is needed
--page               measure nothing; write the page and its pictures anew from docs/benchmarks.json
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tallystick import startup_guard
from tests.benchmarks import acls, compaction, compiled, footprint, much, report, tls, watching
from tests.benchmarks.about import about
from tests.benchmarks.footprint import Note
from tests.benchmarks.loads import Figures
from tests.benchmarks.ratios import Measured
from tests.benchmarks.rows import FAMILIES, MEMORY_LOADED, ROWS, Row
from tests.benchmarks.targets import COMPACTING, KFAKE, MAKERS, RIVALS, TITLES, Target, make
from tests.harness import kfake
from tests.harness.go_programs import GoMissing
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
    for switch in ("--no-write", "--compiled", "--page"):
        parser.add_argument(switch, action="store_true")
    chosen = parser.parse_args()
    chosen.rows = [name for name in chosen.rows.split(",") if name]
    chosen.targets = [name for name in chosen.targets.split(",") if name]
    unknown = set(chosen.rows) - set(FAMILIES) | set(chosen.targets) - set(MAKERS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return chosen


def noting(measured: Measured) -> Note:
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
        compacting = [name for name in chosen.targets if name in COMPACTING]
        compaction.compactions(compacting, chosen.compaction_gb, chosen.rounds, folder, note)
    if "acls" in chosen.rows:
        acls.decisions(chosen.rounds, note)
        acls.producing(chosen.rounds, chosen.scale, folder, note)
    if "tls" in chosen.rows:
        tls.over_tls(chosen.targets, chosen.rounds, chosen.scale, folder, note)
    if "watching" in chosen.rows:
        watching.watching(chosen.rounds, chosen.scale, folder, note)
    if "scale" in chosen.rows:
        much.much(chosen.scale, folder, note)


def without_what_is_missing(targets: list[str]) -> list[str]:
    """kfake is built before anything is measured, and left out where it cannot be."""
    if KFAKE not in targets:
        return targets
    try:
        kfake.program()
    except GoMissing as reason:
        print(f"kfake is left out: {reason}", file=sys.stderr)
        return [name for name in targets if name != KFAKE]
    return targets


def measure(chosen: argparse.Namespace, note: Note) -> None:
    """Raises `JarsMissing`."""
    folder = Path(tempfile.mkdtemp(prefix="tallystick-bench-"))
    targets: list[Target] = []
    try:
        singles(chosen, folder, note)
        rows = [row for row in ROWS if row.family in chosen.rows]
        if rows:
            targets += [make(name, folder) for name in chosen.targets]
            for target in targets:
                target.process.start()
            in_turns(targets, rows, chosen, note)
    finally:
        for target in targets:
            target.close()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    chosen = options()
    if chosen.page:
        report.write()
        return 0
    if chosen.compiled and startup_guard.core() != "compiled":
        return compiled.run_in_a_copy(sys.argv[1:])
    chosen.targets = without_what_is_missing(chosen.targets)
    measured: Measured = {}
    try:
        measure(chosen, noting(measured))
    except JarsMissing as reason:
        alone = ",".join(name for name in MAKERS if not name.startswith("kafka"))
        print(f"Apache Kafka cannot be had ({reason}); measure without it: --targets {alone}", file=sys.stderr)
        return 1
    facts = about(chosen.targets, chosen.rounds, chosen.scale)
    print(", ".join(f"{name} {fact}" for name, fact in facts.items()))
    if not chosen.no_write:
        report.save(measured, facts)
        print(f"written: {report.PAGE.name}, {report.JSON.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
