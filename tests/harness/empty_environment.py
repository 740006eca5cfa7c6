"""An environment with one wheel and what it requires, and nothing else. What is required is not downloaded: it is
linked from the environment of the tests, in the versions of the lock.
"""

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def empty_environment(folder: Path, wheel: Path, *, extras: Iterable[str] = (), beside: Iterable[str] = ()) -> Path:
    """Its Python. `beside` names distributions that the wheel does not ask for."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [
        *PIP,
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        str(wheel),
    ]
    subprocess.run(install, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (metadata,) = site.glob(f"{wheel.name.partition('-')[0]}-*.dist-info")
    for one in _required(Distribution.at(metadata), extras, beside):
        for entry in {Path(str(file)).parts[0] for file in one.files or () if not str(file).startswith("..")}:
            if entry != "__pycache__" and not (site / entry).exists():
                (site / entry).symlink_to(Path(str(one.locate_file(entry))))
    return python


def _required(first: Distribution, extras: Iterable[str], beside: Iterable[str]) -> list[Distribution]:
    """What a distribution requires, and what that requires."""
    found: dict[str, Distribution] = {canonicalize_name(name): distribution(name) for name in beside}
    todo = [(first, tuple(extras)), *((one, ()) for one in found.values())]
    while todo:
        one, wanted = todo.pop()
        for text in one.requires or ():
            requirement = Requirement(text)
            marker, name = requirement.marker, canonicalize_name(requirement.name)
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                continue
            if name not in found:
                found[name] = distribution(name)
                assert requirement.specifier.contains(found[name].version, prereleases=True), text
                todo.append((found[name], tuple(requirement.extras)))
    return list(found.values())
