"""How a wheel differs from the tree: our packages with general names lie in it below `tallystick._parts`, and where
`TALLYSTICK_COMPILE` asks for it there is a compiled core beside the sources.

`broker`, `storage` or `protocol` are names that others have, too. In somebody's environment they would stand in the way
of his own packages (one that is installed with `pip install -e .` comes after ours), or be overwritten by these. So the
packages are moved below `tallystick` when a wheel is built, and the imports of them are rewritten. Nothing but import
statements is changed. An editable installation is the tree as it is.

`TALLYSTICK_COMPILE=1` compiles the modules that pyproject.toml names under `[tool.tallystick]`; any other value names
them itself. What is compiled lies in a folder of its own, `tallystick/compiled`: the sources are what everybody
imports, but for the server, which takes what is compiled in their place (`tallystick/startup_guard.py`).

The rest of what setuptools has to know is in pyproject.toml.
"""

import ast
import os
import shutil
import tomllib
from contextlib import chdir
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

MOVED = ("protocol", "keystores", "storage", "coordinator", "broker")
PUBLIC = ("spark_connector", "tallystick")
PARTS = "tallystick._parts"
LIBRARY = "tallystick_core"
"""Holds the code of all compiled modules; each has a small file beside it by which Python finds its part."""
HEAD = '"""_parts: what Tallystick is made of; not for import by others."""\n'


class BuildWithParts(build_py):
    """What is built from a tree for a wheel: there alone are packages moved."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            move_parts(Path(self.build_lib))


class EggInfo(egg_info):
    """Names the packages that a wheel has, for `importlib.metadata.packages_distributions` and its like."""

    def run(self) -> None:
        super().run()
        Path(self.egg_info, "top_level.txt").write_text("".join(f"{name}\n" for name in PUBLIC))


def move_parts(folder: Path) -> None:
    """Below `folder`, in place."""
    parts = folder.joinpath(*PARTS.split("."))
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    (parts / "__init__.py").write_text(HEAD)
    for name in MOVED:
        (folder / name).rename(parts / name)
    for name in PUBLIC:
        for path in sorted((folder / name).rglob("*.py")):
            path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")


def rewritten(text: str) -> str:
    """A module's text with its imports as they read in a wheel."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MOVED:
            line = lines[node.lineno - 1]
            assert line[node.col_offset :].startswith("from "), line
            place = node.col_offset + len("from ")
            lines[node.lineno - 1] = f"{line[:place]}{PARTS}.{line[place:]}"
        elif isinstance(node, ast.Import):
            assert not {name.name.partition(".")[0] for name in node.names} & {*MOVED}, "`from x import y` only"
    return "".join(lines)


class WithCore(Distribution):
    """One that says whether it is for one Python and one kind of machine, before anything is compiled."""

    def has_ext_modules(self) -> bool:
        return bool(os.environ.get("TALLYSTICK_COMPILE"))


class BuildCore(build_ext):
    """Compiles modules where they lie in what is being built: by the names that they have there."""

    def run(self) -> None:
        wanted = os.environ.get("TALLYSTICK_COMPILE")
        if wanted:
            self.distribution.ext_modules = compiled(wanted, Path(self.build_lib), Path(self.build_temp).absolute())
            building = build_ext(self.distribution)  # another one, which knows the modules from its beginning
            building.build_lib, building.build_temp = self.build_lib, self.build_temp
            building.ensure_finalized()
            building.run()
            self.extensions = building.extensions


def compiled(wanted: str, sources: Path, scratch: Path) -> list[Extension]:
    """What mypyc makes of these modules, as they lie below `sources`."""
    from mypyc.build import mypycify

    with Path("pyproject.toml").open("rb") as settings:
        of_all = tomllib.load(settings)["tool"]["tallystick"]["compiled-modules"]
    within = Path(*PARTS.split("."))
    start = within if (sources / within).is_dir() else Path()
    paths = [f"{start / name.replace('.', '/')}.py" for name in (of_all if wanted == "1" else wanted.split())]
    level = os.environ.get("TALLYSTICK_COMPILE_LEVEL", "2")
    scratch.mkdir(parents=True, exist_ok=True)
    with chdir(sources):  # mypy looks for packages beside the folder that it is started in
        found = mypycify(
            ["--config-file=", f"--cache-dir={scratch / 'mypy'}", "--ignore-missing-imports", *paths],
            opt_level=level,
            debug_level="0",
            multi_file=True,
            group_name=LIBRARY,
            target_dir=str(scratch),
        )
    for extension in found:
        extension.name = f"tallystick.compiled.{extension.name}"
    return found


setup(distclass=WithCore, cmdclass={"build_py": BuildWithParts, "build_ext": BuildCore, "egg_info": EggInfo})
