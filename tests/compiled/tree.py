"""A copy of the project with its core compiled, as `make dist-compiled` has it compiled, in `build/compiled`.

Nothing of it is seen from the work tree, which stays pure. What was compiled is used again while its sources, the build
and the Python are the same.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from tests.harness.source_tree import ROOT, copy

PROBLEM = "the core is not compiled here: there is no C compiler, or no header of this Python"


def can_compile() -> bool:
    """Whether there is what is needed: the compiler that this Python was made with, and its headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    return shutil.which(compiler[0]) is not None and header.exists()


def compiled_tree(folder: Path = ROOT / "build" / "compiled") -> Path:
    """The copy, made anew but for what is still good of it. Raises `CalledProcessError` where it does not compile."""
    core, kept = folder / "tallystick" / "compiled", folder.with_suffix(".core")
    mark = core / "made-of"
    if mark.exists() and mark.read_text() == _made_of():
        core.rename(kept)
    shutil.rmtree(folder, ignore_errors=True)
    copy(folder)
    for name in (".venv", ".jars"):  # the latter where it was made
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    if kept.exists():
        kept.rename(core)
        return folder
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "."]
    subprocess.run(build, cwd=folder, env=os.environ | {"TALLYSTICK_COMPILE": "1"}, check=True)
    mark.write_text(_made_of())
    return folder


def modules() -> list[str]:
    """What is compiled, by name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[str] = settings["tool"]["tallystick"]["compiled-modules"]
    return found


def _made_of() -> str:
    """All sources of ours may be seen in what is compiled: types of others, and values that are inlined."""
    sources = [
        path
        for package in ("protocol", "keystores", "storage", "coordinator", "broker")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    digest = hashlib.sha256(f"{sys.version} {os.environ.get('TALLYSTICK_COMPILE_LEVEL')}".encode())
    for path in (ROOT / "setup.py", ROOT / "requirements" / "test.txt", *sources):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    digest.update("\n".join(modules()).encode())
    return digest.hexdigest()
