"""`make fresh`: the README's two commands on fresh machines, Debian 13 (Python 3.13) and Debian testing (Python 3.14).

No Java is there, nor anything else that the README does not require. Exit status 0: both commands passed on both;
1: one did not; 2: no fresh machine can be made here.
"""

import argparse
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fresh.debian import Debian
from tests.fresh.here import Here, settings_of_here, why_not

RELEASES = ("trixie", "testing")
COMMANDS = ("make demo", "make test")
PROJECT = Path(__file__).resolve().parents[2]
LAST_LINES = 40
SKIPPED = re.compile(r"SKIPPED \[(?P<count>\d+)\] \S+ (?P<reason>.*)")
PASSED, FAILED, NOT_HERE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Make the machines, type the commands, print a verdict on each."""
    parser = argparse.ArgumentParser(prog="make fresh", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--releases", nargs="+", default=RELEASES, metavar="NAME", help="of Debian")
    parser.add_argument("--commands", nargs="+", default=COMMANDS, metavar="COMMAND", help="to be typed")
    parser.add_argument("--folder", type=Path, help="where to make them (default: the folder for temporary files)")
    parser.add_argument("--keep", action="store_true", help="leave them there afterwards")
    options = parser.parse_args(arguments)
    if (reason := why_not()) is not None:
        print(f"no fresh machine can be made here: {reason}")
        return NOT_HERE
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))  # so that what runs in there is ended, too
    here = settings_of_here()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-fresh-", dir=options.folder))
    folder.chmod(0o755)
    print(f"in {folder}, packages from {here.mirror}", flush=True)
    passed = False
    try:
        results = [_try(release, folder, here, options.commands) for release in options.releases]
        passed = all(results)
    finally:
        if options.keep or not passed:
            print(f"what is left: {folder}")
        if not options.keep:
            for release in options.releases:
                shutil.rmtree(folder / release, ignore_errors=True)
            if passed:
                shutil.rmtree(folder)
    return PASSED if passed else FAILED


def _try(release: str, folder: Path, here: Here, commands: Sequence[str]) -> bool:
    """One release: whether all commands passed. Their output is in a file, its end is shown where one failed."""
    written = folder / f"{release}.log"
    with written.open("ab") as log:
        debian = Debian(release, folder / release, here, log)
        if not debian.make():
            return _verdict(release, "debootstrap", written, passed=False)
        debian.copy(PROJECT)
        print(f"{release}: {debian.versions()}", flush=True)
        results = []
        for command in commands:
            began = time.monotonic()
            results.append(debian.passes(command))
            _verdict(release, f"{command} ({time.monotonic() - began:.0f} s)", written, passed=results[-1])
    for line in said_at_the_end(written.read_text(errors="replace").splitlines()):
        print(f"{release}: {line}")
    return all(results)


def said_at_the_end(lines: Sequence[str]) -> list[str]:
    """What was skipped, a line for each reason with the number of tests, and pytest's count of all."""
    skipped: Counter[str] = Counter()
    for line in lines:
        if found := SKIPPED.match(line):
            skipped[found["reason"]] += int(found["count"])
    counts = [line for line in lines if "skipped" in line and not SKIPPED.match(line)]
    return [f"{count} skipped: {reason}" for reason, count in skipped.most_common()] + counts


def _verdict(release: str, what: str, written: Path, *, passed: bool) -> bool:
    print(f"{release}: {what}: {'passed' if passed else 'FAILED'}", flush=True)
    if not passed:
        print("\n".join(written.read_text(errors="replace").splitlines()[-LAST_LINES:]), flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
