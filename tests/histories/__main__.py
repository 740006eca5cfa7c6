"""`python -m tests.histories FILE ...`: judge histories that were written down."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.histories.checker import check
from tests.histories.operation import read_history


def judged(files: Sequence[Path]) -> bool:
    """Print a verdict on each; whether nothing was wrong."""
    healthy = True
    for file in files:
        began = time.monotonic()
        verdict = check(read_history(file))
        print(f"{file}, judged in {time.monotonic() - began:.1f} s: {verdict}")
        healthy &= not verdict.wrong
    return healthy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.histories")
    parser.add_argument("files", nargs="+", type=Path)
    sys.exit(not judged(parser.parse_args().files))
