"""`--compiled`: the whole benchmark runs from a copy of the tree with the core compiled, so that each broker that it
starts has it, and writes what it has measured into this one.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence

from tests.compiled.tree import PROBLEM, can_compile, compiled_tree
from tests.harness.source_tree import ROOT

SHARED = "docs", ".jars"


def run_in_a_copy(arguments: Sequence[str]) -> int:
    """Its status."""
    if not can_compile():
        print(PROBLEM, file=sys.stderr)
        return 1
    folder = compiled_tree()
    for name in SHARED:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).symlink_to(ROOT / name)
    python = str(ROOT / ".venv/bin/python")
    return subprocess.run([python, "-m", "tests.benchmarks", *arguments], cwd=folder, check=False).returncode
