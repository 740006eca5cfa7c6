"""A folder of files, read only. Nothing here writes, makes, renames or deletes; who asks for it has a bug.

`in_use` asks for the lock that a broker holds on its data folder, as a reader: others may look at the same time, a
broker that is started meanwhile is refused.
"""

import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from broker.disk.local_files import LOCK_FILE
from protocol.schema import Buffer
from storage.files import FilesBeside, InPlaceFile, Space

Runs = Sequence[tuple[int, memoryview]]
"""(position, bytes) in order; each begins within what is there then, or right behind it."""


class InUse(Exception):
    """A broker uses the data folder; the message says so."""


class ReadFile:
    """See `storage.files.File`."""

    shares_commits = False

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def read_apart(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def read_to_send(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def whole(self) -> bytes:
        """All of it."""
        parts, position = [], 0
        while piece := self.read(position, 1 << 20):
            parts.append(piece)
            position += len(piece)
        return b"".join(parts)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1

    def append(self, parts: Sequence[Buffer]) -> None:
        _refuse()

    def write_at(self, position: int, data: Buffer) -> None:
        _refuse()

    def commit(self) -> None:
        _refuse()

    def truncate(self, size: int) -> None:
        _refuse()

    def sync(self) -> None:
        _refuse()


class ReplayedFile(ReadFile):
    """One as it is when the next start has put into it what the write-ahead log has for it."""

    def __init__(self, path: str, runs: Runs) -> None:
        super().__init__(path)
        self._runs = runs

    def size(self) -> int:
        return max(super().size(), *(position + len(data) for position, data in self._runs))

    def read(self, position: int, size: int) -> bytes:
        found = bytearray(super().read(position, size))
        for at, data in self._runs:
            begin, end = max(at, position), min(at + len(data), position + size)
            if begin < end:
                found[begin - position : end - position] = data[begin - at : end - at]
        return bytes(found)


class UntouchedFiles:
    """See `storage.files.Files`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.replayed: Mapping[str, Runs] = {}
        """By path: what the next start puts into a file."""

    def open(self, path: str, *, create: bool = False) -> ReadFile:
        assert not create, "nothing is made here"
        runs = self.replayed.get(path)
        whole = os.path.join(self.root, path)
        return ReplayedFile(whole, runs) if runs else ReadFile(whole)

    def open_in_place(self, path: str) -> InPlaceFile:
        _refuse()

    def contents(self, path: str) -> bytes:
        """Of a whole file. Raises `OSError`."""
        file = self.open(path)
        try:
            return file.whole()
        finally:
            file.close()

    def size(self, path: str) -> int:
        """Of a file. Raises `OSError`."""
        file = self.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self.root, path))

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(os.path.join(self.root, folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def longest_name(self) -> int:
        return os.pathconf(self.root, "PC_NAME_MAX")

    def space(self) -> Space:
        found = os.statvfs(self.root)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def make_folder(self, path: str) -> None:
        _refuse()

    def leaving(self, paths: Sequence[str]) -> None:
        _refuse()

    def rename(self, source: str, target: str) -> None:
        _refuse()

    def delete(self, path: str) -> None:
        _refuse()

    def delete_folder(self, path: str) -> None:
        _refuse()

    def sync_folder(self, path: str) -> None:
        _refuse()

    def write_whole(self, path: str, *parts: Buffer) -> None:
        _refuse()

    def beside(self) -> FilesBeside:
        _refuse()


def _refuse() -> NoReturn:
    raise AssertionError("files are only looked at")


def hold(root: str) -> int:
    """Take the lock as a reader, for as long as the descriptor is open; -1 where no broker was ever there. Raises
    `InUse`."""
    path = os.path.join(root, LOCK_FILE)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        by = f"process {holder}" if holder.isdigit() else "a broker"
        raise InUse(f"the data folder {root} is in use by {by}: what is being written cannot be judged") from None
    return descriptor
