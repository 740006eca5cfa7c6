"""`python -m tests.chaos.power_cuts --rounds 20 [--seed N]`: rounds with power cuts, each drawn from its own seed."""

import argparse
import random
import secrets
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.power_cuts.cut_disk import FILE_SYSTEMS, why_not
from tests.chaos.power_cuts.rounds import DURABILITIES, one_round


def main() -> int:
    """Exit status 1 where anything was wrong; the image and all logs of that round stay then."""
    options = _options()
    usable = []
    for kind in options.on or FILE_SYSTEMS:
        if reason := why_not(kind):
            print(f"without {kind}: {reason}", flush=True)
        else:
            usable.append(kind)
    if not usable:
        print("no power can be cut here")
        return 0
    failed = []
    done: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.rounds):
        durability, file_system, seconds = drawn(seed, usable)
        durability = options.durability or durability
        print(f"seed {seed}: {durability} on {file_system}, {seconds:.0f} s", flush=True)
        folder = Path(tempfile.mkdtemp(prefix=f"tallystick-power-{seed}-"))
        report = one_round(
            folder,
            seed,
            durability=durability,
            file_system=file_system,
            seconds=seconds,
            syncs=not options.without_syncs,
        )
        print(report, flush=True)
        done += report.faults
        if report.violations:
            failed.append(seed)
            print(f"seed {seed} FAILED; the image and all logs are in {folder}", flush=True)
    total = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
    print(f"{options.rounds} rounds: {total}; failed: {failed or 'none'}")
    return int(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make power-cuts")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the first round")
    parser.add_argument("--on", nargs="*", choices=FILE_SYSTEMS, help="only these file systems")
    parser.add_argument("--durability", choices=DURABILITIES, help="only this one")
    parser.add_argument("--without-syncs", action="store_true", help="the control: nothing is synced, and it must fail")
    return parser.parse_args()


def drawn(seed: int, usable: list[str]) -> tuple[str, str, float]:
    """Durability, file system and seconds of a seed's round."""
    chosen = random.Random(f"round {seed}")
    return chosen.choices(DURABILITIES, (3, 1))[0], chosen.choice(usable), chosen.uniform(2.0, 9.0)


if __name__ == "__main__":
    sys.exit(main())
