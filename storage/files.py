"""The port through which storage reaches a disk: a few operations on named files.

The one real implementation is `broker/disk/local_files.py`; tests bring a simulated disk that loses what
was not synced. Paths are relative to the data folder, parts joined by `/`. Every method may raise
`OSError`; the caller decides what that means (a failed write or sync is fatal to the process).

Nothing here waits on purpose. `sync`, `commit`, `sync_folder` and `write_whole` may take long; they, `write_at`,
`read_apart`, `list`, and `delete` of a file that is not open are the only methods that may be called from another
thread than the event loop's.
Work that does more on another thread is given `FilesBeside`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from protocol.schema import Buffer

TEMPORARY = ".tmp"
"""Behind the name of a file while `write_whole` writes it."""


class GivenUp(Exception):
    """What another thread is about to read is no longer wanted."""


class File(Protocol):
    """An open file. Reading and writing do not move a shared position."""

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all parts at the end, in one system call where possible. On `OSError` the file may be longer
        by a part of what was given: the caller truncates or stops."""

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer at the end of the file."""

    def read_apart(self, position: int, size: int) -> bytes:
        """As `read`, from any thread."""

    def read_to_send(self, position: int, size: int) -> Buffer:
        """The same bytes for an answer to a client. They may stay in the file until they are sent: of the result only
        its length may be looked at. All of them are there."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite in place. Thread-safe, as long as the file does not become longer."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """fdatasync: what was written is on the disk when this returns. Thread-safe."""

    def commit(self) -> None:
        """What was appended survives a power cut when this returns: it is on the disk, or a start will put it there.
        Thread-safe."""

    @property
    def shares_commits(self) -> bool:
        """Whether `commit` needs no sync of this file: one serves all files that say so."""

    def close(self) -> None: ...


class InPlaceFile(Protocol):
    """An open file that is written where it was written before, and by nobody else."""

    def write(self, position: int, data: Buffer) -> None:
        """It is on the disk when this returns. From any thread, one at a time; the file does not become longer."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Space:
    """How large a file system is, and how much of it may still be written. In bytes."""

    total_bytes: int
    usable_bytes: int


class Files(Protocol):
    """A folder tree."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; with `create`, make it where it is missing.

        An implementation may close the descriptor of a file that has not been used for long and open it
        again on the next use (a thousand partitions of three files each need not be open at once).
        """

    def open_in_place(self, path: str) -> InPlaceFile:
        """Of a file that is there. From any thread."""

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """Names (not paths) in a folder, sorted; empty where the folder is missing."""

    def make_folder(self, path: str) -> None:
        """With its parents; no error where it is there already."""

    def leaving(self, paths: Sequence[str]) -> None:
        """Files or folders are about to be renamed or deleted: what that needs is done for all of them at once."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces the target."""

    def delete(self, path: str) -> None:
        """Delete a file; no error where it is missing."""

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it; no error where it is missing."""

    def longest_name(self) -> int:
        """How long the name of a folder may be in which files of a log are to be made."""

    def space(self) -> "Space":
        """Of the file system that it is on. Thread-safe."""

    def sync_folder(self, path: str) -> None:
        """Make creations, renames and deletions in a folder durable. Thread-safe."""

    def write_whole(self, path: str, *parts: Buffer) -> None:
        """Replace a small file atomically and durably: temporary name, sync, rename, sync of the folder.
        Thread-safe, two writers of one path excepted."""

    def beside(self) -> "FilesBeside":
        """The same files, for work on another thread. No other thread may use meanwhile what it opens or renames."""


class FilesBeside(Files, Protocol):
    """Files that belong to one piece of work until `hand_over`, and to all users afterwards."""

    def hand_over(self) -> None:
        """On the loop's thread, when the work is done: what it has open or has renamed is from now on as if it had been
        opened or renamed there. Holders of a file, or of these files, keep them."""

    def give_up(self) -> None:
        """From any thread: reading or writing a file raises `GivenUp` soon. What was begun may stay half done, as after
        a crash."""

    def close(self) -> None:
        """Without `hand_over`: close what the work has left open."""


class FilesAround:
    """Files that are others' but for what a kind of them does itself."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def open(self, path: str, *, create: bool = False) -> File:
        return self._files.open(path, create=create)

    def open_in_place(self, path: str) -> InPlaceFile:
        return self._files.open_in_place(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def list(self, folder: str) -> list[str]:
        return self._files.list(folder)

    def make_folder(self, path: str) -> None:
        self._files.make_folder(path)

    def leaving(self, paths: Sequence[str]) -> None:
        self._files.leaving(paths)

    def rename(self, source: str, target: str) -> None:
        self._files.rename(source, target)

    def delete(self, path: str) -> None:
        self._files.delete(path)

    def delete_folder(self, path: str) -> None:
        self._files.delete_folder(path)

    def longest_name(self) -> int:
        return self._files.longest_name()

    def space(self) -> Space:
        return self._files.space()

    def sync_folder(self, path: str) -> None:
        self._files.sync_folder(path)

    def write_whole(self, path: str, *parts: Buffer) -> None:
        self._files.write_whole(path, *parts)
