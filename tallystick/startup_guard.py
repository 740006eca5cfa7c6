"""The way into the server process, guarded against shadowing.

Our packages have generic names (`broker`, `storage` …), so a user's working folder or PYTHONPATH may hold others of the
same name, and `python -P` alone does not keep PYTHONPATH out. Therefore:

1. The server runs in a process of its own, started with `-P` and without PYTHONPATH.
2. Before the first import, every sibling package is looked at: it must lie beside this one and begin with its marker.
3. An import hook resolves exactly these names to exactly these folders, whatever `sys.path` says.
4. Modules of theirs that are compiled beside them are taken in place of their sources, unless `TALLYSTICK_PURE=1`.

In the tree the siblings lie beside `tallystick`. In a wheel they are `tallystick._parts.broker` and so on (setup.py),
and `tallystick` is the one name that somebody else's package could have.

This file imports nothing but what Python itself has already loaded, and the import machinery.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIBLINGS = ("protocol", "keystores", "storage", "coordinator", "broker")


class Shadowed(Exception):
    """A package of ours is missing, or something else stands in its place."""


SERVE = "serve"
OFFLINE = "offline"
BACKUPS = "backups"
"""What runs in the guarded process: the server, what looks at its files without one, and what copies them."""


def server_command(arguments: Sequence[str]) -> list[str]:
    """The command line that runs the server, whatever folder and environment it is started from."""
    return guarded_command(SERVE, arguments)


def guarded_command(name: str, arguments: Sequence[str]) -> list[str]:
    """The same for any of them, and for a command that a process of ours starts."""
    return [sys.executable, "-P", os.path.join(ROOT, "tallystick", "__main__.py"), name, *arguments]


def server_environment() -> dict[str, str]:
    """Our environment without what would lead imports astray.

    glibc raises its threshold for memory of one's own with every large piece that is freed; snapshots and large
    requests would then stay with the process for good. A threshold that is given stays. With one of them fixed, the
    other, for the end of the heap, stays at 128 KB: each batch that is opened would give its pages back and be given
    new ones, which takes as long as to decompress it.
    """
    found = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    found.setdefault("MALLOC_MMAP_THRESHOLD_", str(1 << 20))
    found.setdefault("MALLOC_TRIM_THRESHOLD_", str(4 << 20))
    return found


def become_server(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the server: a signal sent to the command reaches the broker."""
    become_guarded(SERVE, arguments)


def become_guarded(name: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the guarded one of this name: its status, signals and pipes are the command's."""
    sys.stdout.flush()
    sys.stderr.flush()
    command = guarded_command(name, arguments)
    os.execve(command[0], command, server_environment())  # noqa: S606  that is the point


def is_guarded() -> bool:
    """Whether this process was started as the server is to be."""
    return bool(sys.flags.safe_path) and "PYTHONPATH" not in os.environ


def install(root: str = ROOT) -> None:
    """Check the siblings and put the import hook in place. Raises `Shadowed`."""
    parts = os.path.join(root, "tallystick", "_parts")
    is_wheel = os.path.isdir(parts)
    for name in SIBLINGS:
        _check(parts if is_wheel else root, name)
    names = ("tallystick",) if is_wheel else (*SIBLINGS, "tallystick")
    for name in names:
        loaded = sys.modules.get(name)
        if loaded is not None and not _lies_in(root, name, getattr(loaded, "__file__", None)):
            raise Shadowed(f"another package called {name!r} is already imported from {loaded.__file__}")
    sys.meta_path.insert(0, _OwnNames(root, names))
    take_compiled(root)


def take_compiled(root: str = ROOT) -> None:
    """From now on, import the compiled modules that there are. What is imported already stays as it is."""
    if modules := compiled_modules(root):
        sys.meta_path.insert(0, _CompiledFinder(modules))


def compiled_modules(root: str = ROOT) -> dict[str, str]:
    """The files of modules that were compiled for this Python, by name; none where the sources are chosen."""
    if os.environ.get("TALLYSTICK_PURE") == "1":
        return {}
    folder, suffix = os.path.join(root, "tallystick", "compiled"), EXTENSION_SUFFIXES[0]
    return {
        os.path.relpath(os.path.join(where, file), folder).removesuffix(suffix).replace(os.sep, "."): os.path.join(
            where, file
        )
        for where, _, files in os.walk(folder)
        for file in files
        if file.endswith(suffix)
    }


def core() -> str:
    """What a server started from here runs: "compiled" or "pure"."""
    return "compiled" if compiled_modules() else "pure"


def _check(root: str, name: str) -> None:
    path = os.path.join(root, name, "__init__.py")
    try:
        with open(path, encoding="utf-8") as source:
            start = source.read(len(name) + 5)
    except (OSError, UnicodeDecodeError):
        raise Shadowed(f"the package {name!r} of Tallystick is not beside it in {root}; install it again") from None
    if start != f'"""{name}: ':
        raise Shadowed(f"{path} is not part of Tallystick; something else of the same name has taken its place")


def _lies_in(root: str, name: str, path: str | None) -> bool:
    return path is not None and os.path.abspath(path) == os.path.join(root, name, "__init__.py")


class _OwnNames:
    """Resolves our own top-level names, and no others."""

    def __init__(self, root: str, names: Sequence[str]) -> None:
        self._root, self._names = root, names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name not in self._names:
            return None
        folder = os.path.join(self._root, name)
        return spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])


class _CompiledFinder:
    """Resolves the modules that are compiled, and the library that holds their code."""

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._modules.get(name)
        return None if file is None else spec_from_file_location(name, file)
