"""`python -m tests.chaos --minutes 10 [--seed N] [--keep]`: half of the time in each durability mode."""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import Chaos, crew, usable_clients


def main() -> int:
    """Exit status 1 where anything was wrong; the folder with logs and histories stays then."""
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--keep", action="store_true", help="keep logs and histories")
    options = parser.parse_args()
    clients = usable_clients()
    failed = False
    for number, durability in enumerate(("fsync", "page-cache")):
        folder = Path(tempfile.mkdtemp(prefix=f"tallystick-chaos-{durability}-"))
        seed = options.seed * 2 + number
        print(f"{durability}, seed {options.seed}, clients {', '.join(clients)}", flush=True)
        members = crew(clients, ("librdkafka", clients[1]))
        report = Chaos(folder, durability=durability, seed=seed).run(options.minutes * 30, members)
        print(report, flush=True)
        failed |= bool(report.violations)
        if report.violations or options.keep:
            print(f"everything about it is in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
