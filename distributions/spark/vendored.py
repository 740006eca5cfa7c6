"""What the connector needs of our other packages, under its own name.

`protocol` and `keystores` are names that others have, too; in the site-packages of somebody's Spark they are not to
stand. So what the connector imports of them and of some packages of `tallystick`, and what that imports, is copied
below `spark_connector._vendor` with its imports rewritten. Nothing but import statements is changed.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONNECTOR = "spark_connector"
LEFT_OUT = f"{CONNECTOR}.pipelines"
"""Demonstrations, which are run from the tree."""
VENDOR = f"{CONNECTOR}._vendor"
MOVED = {
    "protocol": f"{VENDOR}.protocol",
    "keystores": f"{VENDOR}.keystores",
    "tallystick.client": f"{VENDOR}.client",
    "tallystick.inspection": f"{VENDOR}.inspection",
    "tallystick.schemas": f"{VENDOR}.schemas",
}
"""Packages, and their names in the distribution."""
OURS = frozenset({"protocol", "keystores", "storage", "coordinator", "broker", "tallystick"})
"""Top-level names that nothing in the distribution may import."""
HEAD = '"""_vendor: what the connector stands on, copied from Tallystick when the distribution was made."""\n'
_IMPORT = re.compile(rf"^(\s*(?:from|import)\s+)({'|'.join(re.escape(name) for name in MOVED)})(?=[.\s])", re.MULTILINE)


class NotSelfContained(Exception):
    """A module would import what is not in the distribution."""


def sources() -> dict[str, str]:
    """All modules of the distribution: path and text. Raises `NotSelfContained`."""
    found = {f"{VENDOR.replace('.', '/')}/__init__.py": HEAD}
    for path in _needed():
        found[_new_path(path)] = rewritten(path.read_text())
    _check(found)
    return dict(sorted(found.items()))


def rewritten(text: str) -> str:
    """A module's text with its imports as they read in the distribution."""
    return _IMPORT.sub(lambda match: match.group(1) + MOVED[match.group(2)], text)


def imported(text: str) -> Iterator[str]:
    """Modules that a text imports anywhere in it; of `from x import y` both `x` and `x.y`, which may be one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None and not node.level, "imports of ours are absolute"
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _needed() -> list[Path]:
    """The connector's files, and those of the moved packages that they come to import."""
    left_out = ROOT / LEFT_OUT.replace(".", "/")
    todo = [path for path in (ROOT / CONNECTOR).rglob("*.py") if left_out not in path.parents]
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += _files_of(name for name in imported(path.read_text()) if name.startswith(tuple(MOVED)))
    return sorted(seen)


def _files_of(names: Iterable[str]) -> Iterator[Path]:
    """The files that importing these runs: modules, and the packages they lie in."""
    for name in names:
        (package,) = [moved for moved in MOVED if name == moved or name.startswith(f"{moved}.")]
        parts = name.split(".")
        for length in range(package.count(".") + 1, len(parts) + 1):
            path = ROOT.joinpath(*parts[:length])
            for file in (path / "__init__.py", path.with_suffix(".py")):
                if file.is_file():
                    yield file


def _new_path(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    for old, new in MOVED.items():
        folder = old.replace(".", "/") + "/"
        if name.startswith(folder):
            return new.replace(".", "/") + "/" + name.removeprefix(folder)
    return name


def _check(found: dict[str, str]) -> None:
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in found}
    for path, text in found.items():
        for node in ast.walk(ast.parse(text)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.partition(".")[0] in OURS or (name.startswith(CONNECTOR) and name not in modules):
                    raise NotSelfContained(f"{path} imports {name}, which is not in the distribution")
