"""`python -m tests.chaos --minutes 10 [--seed N] [--keep]`: half of the time in each durability mode.

--kafka: all of the time on Apache Kafka, as a control, with the same clients and checkers; what is found there is no
failure of this project.
"""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.control import Control
from tests.chaos.run import Chaos, crew, usable_clients
from tests.harness.jars import JarsMissing

KAFKA = "apache-kafka"


def found_nothing(kind: str, seconds: float, seed: int, *, keep: bool) -> bool:
    """Print what came of a run; where anything was wrong the folder with logs and histories stays."""
    folder = Path(tempfile.mkdtemp(prefix=f"tallystick-chaos-{kind}-"))
    clients = usable_clients()
    members = crew(clients, ("librdkafka", clients[1]))
    print(f"{kind}, seed {seed}, clients {', '.join(clients)}", flush=True)
    if kind == KAFKA:
        report = Control(folder, seed=seed).pass_by(seconds, members)
    else:
        report = Chaos(folder, durability=kind, seed=seed).run(seconds, members)
    print(report, flush=True)
    if report.violations or keep:
        print(f"everything about it is in {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return not report.violations


def main() -> int:
    """Exit status 1 where anything was wrong with our broker, or Apache Kafka cannot be had."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--keep", action="store_true", help="keep logs and histories")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka instead, as a control")
    options = parser.parse_args()
    seconds = options.minutes * 60
    if options.kafka:
        try:
            found_nothing(KAFKA, seconds, options.seed, keep=options.keep)
        except JarsMissing as reason:
            print(f"Apache Kafka cannot be had ({reason})", file=sys.stderr)
            return 1
        return 0
    healthy = [
        found_nothing(durability, seconds / 2, options.seed * 2 + number, keep=options.keep)
        for number, durability in enumerate(("fsync", "page-cache"))
    ]
    return int(not all(healthy))


if __name__ == "__main__":
    sys.exit(main())
