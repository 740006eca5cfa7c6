"""How a wheel differs from the tree: our packages with general names lie in it below `tallystick._parts`.

`broker`, `storage` or `protocol` are names that others have, too. In somebody's environment they would stand in the way
of his own packages (one that is installed with `pip install -e .` comes after ours), or be overwritten by these. So the
packages are moved below `tallystick` when a wheel is built, and the imports of them are rewritten. Nothing but import
statements is changed. An editable installation is the tree as it is.

The rest of what setuptools has to know is in pyproject.toml.
"""

import ast
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

MOVED = ("protocol", "keystores", "storage", "coordinator", "broker")
PUBLIC = ("spark_connector", "tallystick")
PARTS = "tallystick._parts"
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


setup(cmdclass={"build_py": BuildWithParts, "egg_info": EggInfo})
