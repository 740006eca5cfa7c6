"""Programs of `tests/go` for tests, which are skipped where they cannot be built."""

from pathlib import Path

import pytest

from tests.harness import go_programs
from tests.harness.go_programs import GoMissing


def built(package: str, folder: Path) -> Path:
    """The program of a package, in this folder; the test is skipped where there is no Go, or none of its modules."""
    try:
        return go_programs.built(package, folder / "program")
    except GoMissing as reason:
        pytest.skip(f"franz-go cannot be built here: {reason}")
