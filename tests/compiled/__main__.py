"""`python -m tests.compiled [arguments of pytest]`: compile the core in a copy of the project, run tests there.

Without arguments, the tests that see a broker from outside. Unit tests put doubles in the place of classes that are
compiled, which takes the sources (docs/decisions/0042-a-compiled-core.md).
"""

import subprocess
import sys

from tests.compiled.tree import PROBLEM, can_compile, compiled_tree
from tests.harness.source_tree import ROOT

CHOSEN = ("tests/scenarios", "tests/simulation/test_simulation.py", "tests/server", "tests/clients")


def main() -> int:
    if not can_compile():
        print(PROBLEM)
        return 0
    folder = compiled_tree()
    command = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-p", "tests.compiled.plugin", *(sys.argv[1:] or CHOSEN)]
    return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
