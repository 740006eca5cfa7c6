"""Puts together the root folder of the image: Python, the environment with the broker, the libraries that both load,
and nothing else. No shell is in it, no package manager and no pip: a broker needs none, and nobody has to update them.

    python assemble.py /opt/tallystick /root-folder
"""

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

UNUSED = {
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "site-packages"),
    *("dist-packages", "__pycache__", "venv", "unittest", "distutils", "include", "sqlite3", "curses", "dbm"),
}
"""Folders of the standard library, and of packages, that a server never imports."""
UNLOADED = re.compile(
    r"_?(sqlite3|curses|curses_panel|dbm|gdbm|tkinter|testcapi|crypt|ctypes_test|xxtestfuzz)\.cpython|(nis|readline|ossaudiodev)\.cpython"
)
"""Modules that are the only ones to load a library of the system: databases, terminals, users of a network."""
SOURCES = (".pyx", ".pxd", ".pyi", ".c", ".h", ".a")
"""What packages carry for those who compile against them."""
UNCOMPILED = re.compile(r"/pygments/(lexers|styles|formatters)/|/encodings/")
"""Modules of which few are ever loaded: they are there, but not twice."""
OF_THE_SYSTEM = ("etc/ssl/certs/ca-certificates.crt", "etc/nsswitch.conf", "usr/share/zoneinfo/UTC", "etc/mime.types")
USERS = "root:x:0:0:root:/root:/sbin/nologin\ntallystick:x:10001:10001::/var/lib/tallystick:/sbin/nologin\n"
GROUPS = "root:x:0:\ntallystick:x:10001:\n"


def main() -> None:
    environment, root = Path(sys.argv[1]), Path(sys.argv[2])
    interpreter = environment / "bin" / "python"
    standard = Path(sysconfig.get_path("stdlib"))
    copy_tree(standard, root)
    copy_tree(environment, root, keep=("site-packages",))
    copy_links(interpreter, root)
    loaded = [interpreter.resolve(), *root.rglob("*.so"), *root.rglob("*.so.*")]
    subprocess.run(["strip", "--strip-debug", *map(str, loaded[1:])], check=True)
    for library in sorted(set(libraries(loaded))):
        copy_links(library, root)
    for name in OF_THE_SYSTEM:
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), root / name)
    (root / "etc" / "passwd").write_text(USERS)
    (root / "etc" / "group").write_text(GROUPS)
    for name in ("tmp", "etc/kafka/secrets", "proc", "dev", "sys"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for folder in (standard, environment):
        compileall.compile_dir(place(root, folder), quiet=1, rx=UNCOMPILED, stripdir=str(root), prependdir="/")


def place(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def copy_tree(folder: Path, root: Path, *, keep: tuple[str, ...] = ()) -> None:
    """Without what is never imported."""
    unused = UNUSED - set(keep)

    def ignored(_within: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if name in unused or name.startswith("config-3") or name.endswith(SOURCES) or UNLOADED.match(name)
        ]

    shutil.copytree(folder, place(root, folder), symlinks=True, ignore=ignored, dirs_exist_ok=True)


def copy_links(path: Path, root: Path) -> None:
    """A file, and each symbolic link on the way to it. Folders that are links (`/lib` of Debian) stay links."""
    folder = path.parent
    for above in (*reversed(folder.parents), folder):
        if above.is_symlink() and not os.path.lexists(place(root, above)):
            place(root, above).symlink_to(os.readlink(above))
            place(root, above.resolve()).mkdir(parents=True, exist_ok=True)
    target = place(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        if not target.is_symlink():
            target.symlink_to(os.readlink(path))
        copy_links(Path(os.path.normpath(folder / os.readlink(path))), root)
    elif not target.exists():
        shutil.copy2(path, target)


def libraries(files: list[Path]) -> Iterator[Path]:
    """What the dynamic linker finds for them; those of the environment itself are there already."""
    for file in files:
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            if found := re.search(r"(/\S+) \(0x", line):
                yield Path(found[1])


if __name__ == "__main__":
    main()
