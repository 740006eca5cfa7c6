"""The disk: `storage.files.Files` over one data folder of the local file system.

Rules. Open files and their descriptors belong to the loop's thread (`descriptor_cache`). Syncs, whole-file writes,
writes in place and `read_apart` may be done on any. Another thread that has more to do has open files of its own
(`FilesBeside`).
No path leads out of the data folder.
"""

import fcntl
import os
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from broker.disk.descriptor_cache import DescriptorCache, LocalFile, sync_contents
from broker.disk.file_region import FileRegions
from broker.disk.in_place import InPlace
from broker.disk.pinning import Pinning
from broker.disk.spare_descriptors import SpareDescriptors
from broker.process.descriptor_limit import files_kept_open, highest_for_connections
from protocol.schema import Buffer
from storage.files import TEMPORARY, GivenUp, Space
from storage.segments.segment_format import DELETED

LOCK_FILE = ".lock"
"""Kafka's name, and Java's kind of lock: a Kafka cannot be started on the folder of a running broker."""
BESIDE_DESCRIPTORS = 64
"""Of files that another thread has open, at a time."""
LONGEST_INSIDE = 64
"""Longer than a slash and the name of any file of a log, with what may be put behind it; and the zero that ends a path.
"""

_locked_here: set[str] = set()
"""POSIX locks belong to a process: two brokers in one process must exclude each other themselves."""


class DataFolderLocked(Exception):
    """Another broker uses the data folder."""


class _Folder:
    """The data folder and what is in it, with the files that one thread has open."""

    def __init__(self, root: str, spares: SpareDescriptors, regions: FileRegions, descriptors: int) -> None:
        self.root = root
        self.spares = spares
        self.regions = regions
        self._absolute = partial(_inside, root)  # no method: a log that is given up is freed without the collector
        self.pinning = Pinning(self._absolute)
        self.cache = DescriptorCache(self._absolute, spares, regions, most=descriptors)

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        return self.cache.open(path, create=create)

    def open_in_place(self, path: str) -> InPlace:
        return self.spares.granted(lambda: InPlace(self._absolute(path)))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._absolute(path))

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(self.spares.granted(lambda: os.listdir(self._absolute(folder))))
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        os.makedirs(self._absolute(path), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with self.pinning.keeping(source, target), self.cache.lock:
            os.rename(self._absolute(source), self._absolute(target))
            self.cache.moved(source, target)

    def delete(self, path: str) -> None:
        self.cache.deleted(path)
        try:
            # To free a large file takes long: nobody is to wait for that who asks after others.
            with nullcontext() if path.endswith(DELETED) else self.pinning.keeping(path):
                os.unlink(self._absolute(path))
        except FileNotFoundError:
            return

    def delete_folder(self, path: str) -> None:
        assert path, "the data folder itself is never deleted"
        target = self._absolute(path)
        with self.pinning.keeping(path):
            pass  # What is in it has been linked, if anybody wants it.
        try:
            if os.path.islink(target):
                os.unlink(target)  # As Kafka does: an operator has put it elsewhere, and what is there stays.
            else:
                self.spares.granted(lambda: shutil.rmtree(target))
        except FileNotFoundError:
            return

    def leaving(self, paths: Sequence[str]) -> None:
        """They need nothing."""

    def longest_name(self) -> int:
        whole = os.pathconf(self.root, "PC_PATH_MAX") - len(os.fsencode(self.root)) - len("/") - LONGEST_INSIDE
        return max(0, min(os.pathconf(self.root, "PC_NAME_MAX"), whole))

    def space(self) -> Space:
        found = os.statvfs(self.root)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def sync_folder(self, path: str) -> None:
        self._sync_folder(self._absolute(path))

    def write_whole(self, path: str, *parts: Buffer) -> None:
        target = self._absolute(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = self.spares.granted(lambda: os.open(target + TEMPORARY, flags, 0o644))
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[os.write(descriptor, view) :]
            sync_contents(descriptor)
        finally:
            self.spares.close(descriptor)
        with self.pinning.keeping(path):
            os.rename(target + TEMPORARY, target)
        self._sync_folder(os.path.dirname(target))

    def _sync_folder(self, folder: str) -> None:
        descriptor = self.spares.granted(lambda: _open_folder(folder))
        try:
            os.fsync(descriptor)
        finally:
            self.spares.close(descriptor)


class LocalFiles(_Folder):
    """See the head of this file. Takes the lock of the data folder, which `close` gives back."""

    def __init__(self, root: str, *, descriptors: int | None = None) -> None:
        root = os.path.realpath(root)
        _make_durably(root)
        descriptors = descriptors or files_kept_open()
        regions = FileRegions(descriptors // 4, highest_for_connections())
        self._lock_descriptor = _take_lock(root)
        super().__init__(root, SpareDescriptors(), regions, descriptors)

    def beside(self) -> "FilesBeside":
        return FilesBeside(self)

    def close(self) -> None:
        """Close every descriptor and give the lock back."""
        self.cache.close_all()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1
            _locked_here.discard(self.root)
            self.spares.close_all()


class FilesBeside(_Folder):
    """See `storage.files.FilesBeside`."""

    def __init__(self, files: LocalFiles) -> None:
        # A log keeps its files: a thousand of them share what they can.
        self.root, self.spares, self.regions = files.root, files.spares, files.regions
        self._absolute, self.pinning = files._absolute, files.pinning
        self._files = files
        own = _OwnCache(self._absolute, files.spares, files.regions, most=BESIDE_DESCRIPTORS)
        self._own: _OwnCache | None = own
        self.cache = own

    def beside(self) -> "FilesBeside":
        return self._files.beside()

    def hand_over(self) -> None:
        if self._own is not None:
            self._own.give_to(self._files.cache)
            self.cache = self._files.cache
            self._own = None  # a log keeps its files for as long as it is open

    def give_up(self) -> None:
        own = self._own
        if own is not None:
            own.given_up = True

    def close(self) -> None:
        if self._own is not None:
            self._own.close_all()


class _OwnCache(DescriptorCache):
    given_up = False
    renamed: tuple[tuple[str, str], ...] = ()
    """(source, target). The other cache may have files open there, of what still works on a deleted log."""

    def moved(self, source: str, target: str) -> None:
        super().moved(source, target)
        self.renamed += ((source, target),)

    def give_to(self, other: DescriptorCache) -> None:
        with other.lock:
            for source, target in self.renamed:
                other.moved(source, target)
        super().give_to(other)

    def descriptor_of(self, file: LocalFile) -> int:
        if self.given_up:
            raise GivenUp
        return super().descriptor_of(file)


def _inside(root: str, path: str) -> str:
    """The one gate to the file system."""
    if not path:
        return root
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} does not name anything inside the data folder")
    return f"{root}/{path}"


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _make_durably(root: str) -> None:
    """Make the data folder where it is missing, and its name as durable as what will be written into it. A power cut
    may have come between the two the last time, so that its parent is synced even where it existed."""
    parents = [os.path.dirname(root)]
    while not os.path.isdir(parents[-1]):
        parents.append(os.path.dirname(parents[-1]))
    os.makedirs(root, exist_ok=True)
    for parent in parents:
        try:
            descriptor = _open_folder(parent)
        except PermissionError:  # somebody else's, who has made the folder for us
            continue
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _take_lock(root: str) -> int:
    path = f"{root}/{LOCK_FILE}"
    if root in _locked_here:
        raise DataFolderLocked(f"The data folder {root} is in use by another broker in this process.")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as refused:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        by = f"process {holder}" if holder else "another process"
        raise DataFolderLocked(
            f"The data folder {root} is in use by {by}, which holds {path}. Stop it, or choose another folder."
        ) from refused
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    _locked_here.add(root)
    return descriptor
