"""The distribution `tallystick-spark`: built from this tree, and installed alone, with what it says it needs."""

import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from distributions.spark.__main__ import assemble

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def build(folder: Path) -> Path:
    """The wheel. Nothing is asked of any index."""
    assemble(folder / "source")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder / "wheels")]
    subprocess.run([*PIP, "wheel", *options, str(folder / "source")], check=True)
    (wheel,) = (folder / "wheels").glob("tallystick_spark-*.whl")
    return wheel


def environment(folder: Path, wheel: Path, *extras: str) -> Path:
    """An environment with the wheel and what it requires, and nothing else; its Python. What is required is not copied
    but linked from this environment: PySpark is half a gigabyte.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [*PIP, "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (metadata,) = site.glob("tallystick_spark-*.dist-info")
    for one in _required(Distribution.at(metadata), extras):
        for entry in {Path(str(file)).parts[0] for file in one.files or () if not str(file).startswith("..")}:
            if entry != "__pycache__" and not (site / entry).exists():
                (site / entry).symlink_to(Path(str(one.locate_file(entry))))
    return python


def _required(first: Distribution, extras: tuple[str, ...]) -> list[Distribution]:
    """What a distribution requires, and what that requires."""
    found: dict[str, Distribution] = {}
    todo = [(first, extras)]
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
