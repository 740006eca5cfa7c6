"""What one backup consists of: a JSON object a line, in `backups/<id>`.

    {"version": 1, "id": …, "taken_ms": …, "cluster_id": …, "node_id": …, "life": …, "running": …}
    {"path": "orders-0/….log", "size": …, "mtime_ns": …, "dev": …, "ino": …, "final": …, "compacted": …, "pieces": […]}
    {"files": …, "bytes": …, "new_bytes": …, "sha256": of all lines before}

It gets its name when everything it names is on the disk. `life` is another one at each start of the broker, also of
one that was restored: as long as it is the same, a segment of a topic has only grown.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from broker.backups.pieces import UNREADABLE, Damaged, Piece

VERSION = 1


@dataclass(frozen=True, slots=True)
class Head:
    """Which backup it is, and of what."""

    id: str
    taken_ms: int
    cluster_id: str
    node_id: int
    life: str
    """Empty where no broker ran."""
    running: bool


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the data folder."""

    path: str
    size: int
    mtime_ns: int
    dev: int
    ino: int
    final: bool
    """Of a segment that is written to no more."""
    compacted: bool
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class Manifest:
    """One whole backup."""

    head: Head
    files: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])
    new_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Of all files, as a data folder has them."""
        return sum(one.size for one in self.files.values())

    def to_bytes(self) -> bytes:
        """The file."""
        lines = [_line({"version": VERSION, **asdict(self.head)}), *map(_file_line, self.files.values())]
        text = "".join(lines).encode()
        end = {"files": len(self.files), "bytes": self.size_bytes, "new_bytes": self.new_bytes}
        return text + _line({**end, "sha256": sha256(text).hexdigest()}).encode()


def read_manifest(path: str) -> Manifest:
    """Raises `Damaged`, `OSError`."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC), "rb") as source:
            data = source.read()
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        raise Damaged(f"{path} cannot be read: {error.strerror}") from None
    start = data.rfind(b"\n", 0, len(data) - 1) + 1
    try:
        end = json.loads(data[start:])
        if not data.endswith(b"\n") or end["sha256"] != sha256(data[:start]).hexdigest():
            raise ValueError
        first, *lines = [json.loads(line) for line in data[:start].splitlines()]
        if first.pop("version") != VERSION:
            raise Damaged(f"{path} was written by a newer version of this program")
        made = Manifest(Head(**first), new_bytes=int(end["new_bytes"]))
        for entry in map(_entry, lines):
            made.files[entry.path] = entry
    except (ValueError, KeyError, TypeError):
        raise Damaged(f"{path} is damaged: it does not say any more what the backup consists of") from None
    return made


def _line(said: Mapping[str, object]) -> str:
    return json.dumps(said, separators=(",", ":")) + "\n"


def _file_line(one: FileEntry) -> str:
    names = ("path", "size", "mtime_ns", "dev", "ino", "final", "compacted", "pieces")
    return _line({name: getattr(one, name) for name in names})


def _entry(said: dict[str, Any]) -> FileEntry:
    path = said["path"]
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise ValueError
    return FileEntry(**{**said, "pieces": tuple(Piece(*piece) for piece in said["pieces"])})
