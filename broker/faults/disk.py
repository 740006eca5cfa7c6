"""The disk with fault points: the operation and the file decide which point is passed."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from protocol.schema import Buffer
from storage.checkpoints import CLEAN_SHUTDOWN, LOG_START_OFFSETS, RECOVERY_POINTS
from storage.epochs import EPOCHS_FILE
from storage.files import File, Files, FilesAround, FilesBeside

if TYPE_CHECKING:
    from broker.faults.control import Faults

APPENDS = ((re.compile(r".*\.log"), "log"), (re.compile(r".*\.txnindex"), "aborted"))
WRITES = (
    (re.compile(r".*\.snapshot"), "snapshot", "write"),
    (re.compile(f".*/{EPOCHS_FILE}"), "epochs", "write"),
    (re.compile(f"{RECOVERY_POINTS}|{LOG_START_OFFSETS}"), "checkpoint", "write"),
    (re.compile(re.escape(CLEAN_SHUTDOWN)), "shutdown", "mark"),
)
RENAMES = (
    (re.compile(f".*/{EPOCHS_FILE}"), "epochs", "write"),
    (re.compile(r".*\.log\.swap"), "compaction", "swap"),
    (re.compile(r".*\.log\.deleted"), "retention", "delete"),
    (re.compile(r"[^/]*-delete"), "deletion", "rename"),
)
"""By the name that a file gets."""
COMPACTED = re.compile(r".*\.log\.swap")
NEW_SEGMENT = re.compile(r".*/(?!0{20})\d{20}\.log")

Named = tuple[str, str]


class FaultyFile:
    """An open file; see `storage.files.File`."""

    def __init__(self, faults: "Faults", file: File, path: str) -> None:
        self._faults = faults
        self._file = file
        self._path = path
        self._family = next((family for pattern, family in APPENDS if pattern.fullmatch(path)), None)

    def append(self, parts: Sequence[Buffer]) -> None:
        if self._family is None:
            return self._file.append(parts)
        self._faults.refuse_file(f"{self._family}.before-append", self._path)
        self._file.append(parts)
        self._faults.reach(f"{self._family}.after-append")

    def sync(self) -> None:
        self._sync(self._file.sync)

    def commit(self) -> None:
        self._sync(self._file.commit)

    def _sync(self, sync: Callable[[], None]) -> None:
        if self._family != "log":
            return sync()
        self._faults.refuse_file("log.before-sync", self._path)
        sync()
        self._faults.reach("log.after-sync")

    @property
    def shares_commits(self) -> bool:
        return self._file.shares_commits

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def read_apart(self, position: int, size: int) -> bytes:
        return self._file.read_apart(position, size)

    def read_to_send(self, position: int, size: int) -> Buffer:
        return self._file.read_to_send(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._file.write_at(position, data)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class FaultyFiles(FilesAround):
    """See the head of this file, and `storage.files.Files`."""

    def __init__(self, faults: "Faults", files: Files) -> None:
        super().__init__(files)
        self._faults = faults

    def open(self, path: str, *, create: bool = False) -> File:
        if not (create and NEW_SEGMENT.fullmatch(path) and not self._files.exists(path)):
            return FaultyFile(self._faults, self._files.open(path, create=create), path)
        self._faults.refuse_file("roll.before-create", path)
        file = self._files.open(path, create=True)
        self._faults.reach("roll.after-create")
        return FaultyFile(self._faults, file, path)

    def rename(self, source: str, target: str) -> None:
        named = _renaming(source, target)
        if named is None:
            return self._files.rename(source, target)
        family, verb = named
        self._faults.refuse_file(f"{family}.before-{verb}", target)
        self._files.rename(source, target)
        self._faults.reach(f"{family}.after-{verb}")

    def write_whole(self, path: str, *parts: Buffer) -> None:
        named = _named(WRITES, path)
        if named is None:
            return self._files.write_whole(path, *parts)
        family, verb = named
        self._faults.refuse_file(f"{family}.before-{verb}", path)
        self._files.write_whole(path, *parts)
        self._faults.reach(f"{family}.after-{verb}")

    def beside(self) -> "FaultyFilesBeside":
        return FaultyFilesBeside(self._faults, self._files.beside())


class FaultyFilesBeside(FaultyFiles):
    """See `storage.files.FilesBeside`."""

    def __init__(self, faults: "Faults", files: FilesBeside) -> None:
        super().__init__(faults, files)
        self.hand_over: Callable[[], None] = files.hand_over
        self.give_up: Callable[[], None] = files.give_up
        self.close: Callable[[], None] = files.close


def _renaming(source: str, target: str) -> Named | None:
    return ("compaction", "install") if COMPACTED.fullmatch(source) else _named(RENAMES, target)


def _named(patterns: Sequence[tuple[re.Pattern[str], str, str]], path: str) -> Named | None:
    return next(((family, verb) for pattern, family, verb in patterns if pattern.fullmatch(path)), None)
