"""What the stories reach.

python -m tests.coverage [Fetch ...]        values of request fields, by API and version, and what was never said
"""

import argparse
import sys

from tests.coverage import stories
from tests.coverage.fields import counting, holes, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    parser.add_argument("apis", nargs="*", help="names of APIs; all of them by default")
    parser.add_argument("--seeds", type=int, default=300, help="so many of the simulation, beside all scenarios")
    arguments = parser.parse_args()
    with counting() as fields:
        stories.play_all(arguments.seeds)
    print("\n".join(table(fields, arguments.apis)))
    print("\n".join(["never said:", *holes(fields)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
