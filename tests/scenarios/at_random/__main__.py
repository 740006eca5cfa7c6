"""Random stories against a real Apache Kafka.

    python -m tests.scenarios.at_random transactions --version 2 --start 7000 --count 400
    python -m tests.scenarios.at_random consumers --version 2 --count 150 --record
    python -m tests.scenarios.at_random administration --count 150 --record

A story ends at the first step that is answered otherwise; what it finds becomes a scenario. With --record, Kafka's
answers are kept (`frozen`), for `make test` to compare with.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.scenarios import engine
from tests.scenarios.at_random import frozen
from tests.scenarios.at_random.comparing import AUTHORS, Compared, compare
from tests.scenarios.places.sockets import Oracle

ATTEMPTS = 300
"""What is not there after so many is not coming: an id that hangs."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.at_random", description=__doc__)
    parser.add_argument("kind", choices=tuple(AUTHORS))
    parser.add_argument("--version", type=int, default=2, help="transaction.version of both clusters: 0 or 2")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    engine.ATTEMPTS = ATTEMPTS
    stories: list[Compared] = []
    different = 0
    with tempfile.TemporaryDirectory(prefix="at-random-") as folder:
        kafka = Oracle(Path(folder), arguments.version)
        kafka.process.start()
        try:
            for seed in range(arguments.start, arguments.start + arguments.count):
                compared = compare(kafka, arguments.kind, seed, arguments.version)
                if compared is None:
                    print(f"seed {seed}: an id hangs in Kafka", flush=True)
                    continue
                different += bool(compared.otherwise)
                if not compared.otherwise:
                    stories.append(compared)
                found = "otherwise" if compared.otherwise else f"{len(compared.steps)} steps are equal"
                print("\n    ".join([f"seed {seed}: {found}", *compared.otherwise]), flush=True)
        finally:
            kafka.process.kill()
    if arguments.record:
        frozen.save(arguments.kind, arguments.version, stories)
    print(f"{arguments.count} stories, {different} undeclared differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
