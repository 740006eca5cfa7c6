"""The project as git knows it here, changes that are not committed included: no .venv, no .jars, nothing built."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def names(*folders: str) -> list[str]:
    """The files of the project, or of some of its folders, by their path in it."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    if shutil.which("git") is None:
        pytest.skip("there is no git", allow_module_level=True)
    done = subprocess.run(listed, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git work tree", allow_module_level=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def copy(target: Path, *folders: str) -> Path:
    """Some of it, in a folder of its own: what builds there leaves nothing behind here."""
    for name in names(*folders):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    return target
