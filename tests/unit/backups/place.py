"""A data folder of one log, its backups, and a process that is killed at any change of the disk."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.backups.copying import Copied, copy
from broker.backups.manifest import Head
from broker.backups.restoring import restore
from broker.backups.source import Source, SourceFile
from broker.backups.target import Target, Whose

WHOSE = Whose("cluster", 1)


def quiet(done: int, total: int) -> None:
    """Progress that nobody looks at."""
    assert 0 <= done <= total


@dataclass
class Place:
    """A data folder of one log, and the folder of its backups."""

    root: Path
    life: str = "first"
    compacted: bool = False
    running: bool = True
    count: int = 0
    wanted: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def __post_init__(self) -> None:
        (self.root / "data" / "t-0").mkdir(parents=True)
        self.target = Target(str(self.root / "kept"))
        self.target.prepare(WHOSE)

    def put(self, name: str, data: bytes, *, append: bool = False) -> None:
        with (self.root / "data" / "t-0" / name).open("ab" if append else "wb") as file:
            file.write(data)

    def source(self, lengths: dict[str, int] | None = None) -> Source:
        """The last segment is the active one."""
        folder, lengths = self.root / "data" / "t-0", lengths or {}
        names = sorted(os.listdir(folder))
        files = []
        for name in names:
            length = lengths.get(name, (folder / name).stat().st_size if name == names[-1] else None)
            final = name.endswith(".log") and name != names[-1]
            files.append(SourceFile(f"t-0/{name}", str(folder / name), length, final, self.compacted))
        return Source(WHOSE, self.running, None, self.life, files, {"made": b"made"})

    def backup(self, *, whole: bool = False, lengths: dict[str, int] | None = None) -> Copied:
        self.count += 1
        head = Head(f"b{self.count}", self.count, WHOSE.cluster_id, WHOSE.node_id, self.life, self.running)
        with self.target.writing():
            return copy(self.source(lengths), self.target, head, quiet, whole=whole)

    def restored(self, backup_id: str, name: str = "again") -> dict[str, bytes]:
        folder = self.root / name
        restore(self.target, self.target.read(backup_id), str(folder), quiet)
        return {one.name: one.read_bytes() for one in (folder / "t-0").iterdir()}

    def now(self) -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in (self.root / "data" / "t-0").iterdir()}

    def kept(self) -> list[str]:
        root = Path(self.target.root)
        return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())


class Killed(BaseException):
    """Nothing runs any more, not even what cleans up."""


def killed_at(monkeypatch: pytest.MonkeyPatch, step: int, work: Callable[[], object]) -> bool:
    """Whether the work was killed before its n-th change of the disk."""
    left = [step]

    with monkeypatch.context() as patched:
        for name in ("write", "rename", "fsync", "unlink", "rmdir", "mkdir"):
            original = getattr(os, name)

            def change(*arguments: object, original: Callable[..., object] = original, **named: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return original(*arguments, **named)

            patched.setattr(os, name, change)
        try:
            work()
        except Killed:
            return True
    return False
