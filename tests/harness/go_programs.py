"""Programs of `tests/go`, built from the modules that `go.sum` knows."""

import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "go"
SECONDS = 600


class GoMissing(Exception):
    """A program cannot be built here, in a sentence that says why."""


def built(package: str, program: Path) -> Path:
    """The program of a package, at this path. `GoMissing` where there is no Go, or none of its modules."""
    go = shutil.which("go")
    if go is None:
        raise GoMissing("there is no go on PATH")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        here = os.environ | {"GOTOOLCHAIN": "local"}
        command = [go, *arguments]
        return subprocess.run(
            command, cwd=SOURCES, env=here, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    brought = run("mod", "download")
    if brought.returncode != 0:
        raise GoMissing(f"its modules cannot be had here: {brought.stderr.strip()[-300:]}")
    done = run("build", "-o", str(program), package)
    assert done.returncode == 0, done.stderr
    return program


def pinned(module: str) -> str:
    """The version of a module that is built with."""
    (version,) = re.findall(
        rf"^\s*(?:require )?{re.escape(module)} (\S+)", (SOURCES / "go.mod").read_text(), re.MULTILINE
    )
    return str(version)
