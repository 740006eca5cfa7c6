"""Programs of `tests/go`, built from the modules that `go.sum` knows."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "go"
SECONDS = 600


def built(package: str, folder: Path) -> Path:
    """The program of a package, in this folder; the test is skipped where there is no Go, or none of its modules."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("franz-go needs Go: no go on PATH")
    program = folder / "program"

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        here = os.environ | {"GOTOOLCHAIN": "local"}
        command = [go, *arguments]
        return subprocess.run(
            command, cwd=SOURCES, env=here, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    brought = run("mod", "download")
    if brought.returncode != 0:
        pytest.skip(f"franz-go cannot be had here: {brought.stderr.strip()[-300:]}")
    done = run("build", "-o", str(program), package)
    assert done.returncode == 0, done.stderr
    return program
