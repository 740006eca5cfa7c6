"""Tell the stories to clients, show what each saw, and keep it in `seen.json` (`--keep`), from which `make docs` makes
the table.

`python -m tests.conformance.matrix [--keep] [--stories WORDS] [CLIENT ...]`. `--prepare` only brings and builds what
the programs need, and says what is missing. With `TALLYSTICK_TEST_BROKER=apache-kafka` the broker is Apache Kafka.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance.matrix import seen
from tests.conformance.matrix.clients import CLIENTS, Missing
from tests.conformance.matrix.place import Place
from tests.conformance.matrix.run import tell
from tests.conformance.matrix.story import Story, stories
from tests.harness.broker import KAFKA

MARKS = {"yes": "✓", "no": "✗", "absent": "–"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.conformance.matrix", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--prepare", action="store_true", help="build the programs, and no more")
    parser.add_argument("--keep", action="store_true", help="write what was seen into seen.json")
    parser.add_argument("--stories", default="", help="those only that have this in their name")
    asked = parser.parse_args()
    if asked.prepare:
        for name in asked.clients or CLIENTS:
            _prepare(name)
        return 0
    wanted = [story for story in stories() if asked.stories in story.name]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "place", kafka=KAFKA)
        try:
            for name in asked.clients or CLIENTS:
                failed |= _ask(name, place, wanted, Path(folder), keep=asked.keep)
        finally:
            place.close()
    return int(failed)


def _prepare(name: str) -> None:
    try:
        _, version = CLIENTS[name].prepare()
        print(f"{name} {version}")
    except Missing as reason:
        print(f"{name}: {reason}")


def _ask(name: str, place: Place, wanted: list[Story], folder: Path, *, keep: bool) -> bool:
    try:
        _, version = CLIENTS[name].prepare()
    except Missing as reason:
        print(f"{name}: {reason}")
        return False
    began = time.monotonic()
    cells = tell(place, CLIENTS[name], wanted, folder)
    print(f"{name} {version}, {time.monotonic() - began:.0f} s")
    for story, cell in cells.items():
        print(f"  {MARKS[cell.mark]} {story}" + (f": {cell.why}" if cell.why else ""))
    if keep:
        seen.keep(name, version, cells, kafka=KAFKA)
    return any(cell.mark == "no" for cell in cells.values())


if __name__ == "__main__":
    sys.exit(main())
