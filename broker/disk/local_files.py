"""The disk: `storage.files.Files` over one data folder of the local file system.

Rules. Descriptors are a cache: a file that has not been used for long may have none, and gets one on its next use.
When the system has no more, the loop makes room in the cache; other threads use the spare ones. A lack of descriptors
is never the failure of a write or a sync.
Everything but syncs, whole-file writes, writes in place and `read_apart` happens on one thread. Those run on a
duplicate of the descriptor, so that the loop may meanwhile close, rename or evict the file; the lock is held only while
a descriptor is closed or duplicated.
No path leads out of the data folder.
"""

import fcntl
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import cast

from broker.disk.file_region import FileRegions
from broker.disk.open_files import OpenFiles
from broker.disk.spare_descriptors import NO_DESCRIPTOR, SpareDescriptors
from broker.process.descriptor_limit import files_kept_open, highest_for_connections
from protocol.schema import Buffer

LOCK_FILE = ".lock"
"""Kafka's name, and Java's kind of lock: a Kafka cannot be started on the folder of a running broker."""
PARTS_PER_WRITE = min(1024, os.sysconf("SC_IOV_MAX"))
TEMPORARY = ".tmp"
LONGEST_INSIDE = 64
"""Longer than a slash and the name of any file of a log, with what may be put behind it; and the zero that ends a path.
"""

_locked_here: set[str] = set()
"""POSIX locks belong to a process: two brokers in one process must exclude each other themselves."""


class DataFolderLocked(Exception):
    """Another broker uses the data folder."""


class LocalFile:
    """One file, shared by all who have it open; see `storage.files.File`."""

    __slots__ = ("_files", "_size", "descriptor", "path", "users")

    def __init__(self, files: "LocalFiles", path: str, descriptor: int) -> None:
        self._files = files
        self._size = os.fstat(descriptor).st_size
        self.descriptor = descriptor
        self.path = path
        self.users = 0

    def append(self, parts: Sequence[Buffer]) -> None:
        descriptor = self._files.descriptor_of(self)
        total = sum(map(len, parts))
        try:
            if len(parts) <= PARTS_PER_WRITE:
                written = os.pwritev(descriptor, parts, self._size)
                self._size += written
                if written == total:
                    return
                parts = _remainder(parts, written)
            self._append_rest(descriptor, parts)
        except OSError:
            self._size = os.fstat(descriptor).st_size
            raise

    def _append_rest(self, descriptor: int, parts: Sequence[Buffer]) -> None:
        """More parts than one call takes, or a call that took less than all (a signal, a disk that is filling up)."""
        while parts:
            group = parts[:PARTS_PER_WRITE]
            written = os.pwritev(descriptor, group, self._size)
            self._size += written
            parts = [*_remainder(group, written), *parts[PARTS_PER_WRITE:]]

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._files.descriptor_of(self), size, position)

    def read_apart(self, position: int, size: int) -> bytes:
        descriptor = self._files.duplicate(self)
        try:
            return os.pread(descriptor, size, position)
        finally:
            self._files.spares.close(descriptor)

    def read_to_send(self, position: int, size: int) -> Buffer:
        region = self._files.regions.of(self._files.descriptor_of(self), position, size)
        if region is None:
            return self.read(position, size)
        return cast(Buffer, region)  # of which nobody asks more than its length; see `File.read_to_send`

    def write_at(self, position: int, data: Buffer) -> None:
        descriptor = self._files.duplicate(self)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, position)
                view, position = view[written:], position + written
        finally:
            self._files.spares.close(descriptor)
        if position > self._size:
            self._size = position

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._files.descriptor_of(self), size)
        self._size = size

    def sync(self) -> None:
        descriptor = self._files.duplicate(self)
        try:
            _sync_contents(descriptor)
        finally:
            self._files.spares.close(descriptor)

    def close(self) -> None:
        self._files.release(self)


class LocalFiles:
    """See the head of this file. Takes the lock of the data folder, which `close` gives back."""

    def __init__(self, root: str, *, descriptors: int | None = None) -> None:
        self.root = os.path.realpath(root)
        _make_durably(self.root)
        self._descriptors = descriptors or files_kept_open()
        self.regions = FileRegions(self._descriptors // 4, highest_for_connections())
        self._open = OpenFiles()
        self._recent: OrderedDict[LocalFile, None] = OrderedDict()
        self._lock = threading.Lock()
        self._lock_descriptor = _take_lock(self.root)
        self.spares = SpareDescriptors()

    def close(self) -> None:
        """Close every descriptor and give the lock back."""
        with self._lock:
            for file in self._recent:
                os.close(file.descriptor)
                file.descriptor = -1
            self._recent.clear()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1
            _locked_here.discard(self.root)
            self.spares.close_all()

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        file = self._open.get(path)
        if file is None:
            file = LocalFile(self, path, self._descriptor(path, os.O_CREAT if create else 0))
            self._open.add(path, file)
            self._keep(file)
        file.users += 1
        return file

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
        with self._lock:
            os.rename(self._absolute(source), self._absolute(target))
            self._open.moved(source, target)

    def delete(self, path: str) -> None:
        self._open.remove(path)
        try:
            os.unlink(self._absolute(path))
        except FileNotFoundError:
            return

    def delete_folder(self, path: str) -> None:
        assert path, "the data folder itself is never deleted"
        target = self._absolute(path)
        try:
            if os.path.islink(target):
                os.unlink(target)  # As Kafka does: an operator has put it elsewhere, and what is there stays.
            else:
                self.spares.granted(lambda: shutil.rmtree(target))
        except FileNotFoundError:
            return

    def longest_name(self) -> int:
        whole = os.pathconf(self.root, "PC_PATH_MAX") - len(os.fsencode(self.root)) - len("/") - LONGEST_INSIDE
        return max(0, min(os.pathconf(self.root, "PC_NAME_MAX"), whole))

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
            _sync_contents(descriptor)
        finally:
            self.spares.close(descriptor)
        os.rename(target + TEMPORARY, target)
        self._sync_folder(os.path.dirname(target))

    def _sync_folder(self, folder: str) -> None:
        descriptor = self.spares.granted(lambda: _open_folder(folder))
        try:
            os.fsync(descriptor)
        finally:
            self.spares.close(descriptor)

    def _absolute(self, path: str) -> str:
        """The one gate to the file system."""
        if not path:
            return self.root
        if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise ValueError(f"{path!r} does not name anything inside the data folder")
        return f"{self.root}/{path}"

    def descriptor_of(self, file: LocalFile) -> int:
        """A descriptor that stays open until the next use of another file."""
        if file.descriptor >= 0:
            self._recent.move_to_end(file)
        else:
            file.descriptor = self._descriptor(file.path)
            self._keep(file)
        return file.descriptor

    def _descriptor(self, path: str, create: int = 0) -> int:
        """A new descriptor for the cache, which makes room for it where the system has no more."""
        absolute, flags = self._absolute(path), os.O_RDWR | os.O_CLOEXEC | create
        while self._recent:
            try:
                return os.open(absolute, flags, 0o644)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
            self._close_oldest()
        return self.spares.granted(lambda: os.open(absolute, flags, 0o644))

    def _keep(self, file: LocalFile) -> None:
        self._recent[file] = None
        while len(self._recent) > self._descriptors:
            self._close_oldest()

    def _close_oldest(self) -> None:
        oldest, _ = self._recent.popitem(last=False)
        self._close_descriptor(oldest)

    def _close_descriptor(self, file: LocalFile) -> None:
        with self._lock:
            descriptor, file.descriptor = file.descriptor, -1
            self.spares.close(descriptor)

    def duplicate(self, file: LocalFile) -> int:
        """A descriptor of the caller's own, from any thread; outside the cache, which belongs to the loop's thread. To
        be closed by `spares`."""
        with self._lock:
            return self.spares.granted(lambda: self._duplicate(file))

    def _duplicate(self, file: LocalFile) -> int:
        if file.descriptor >= 0:
            return os.dup(file.descriptor)
        return os.open(self._absolute(file.path), os.O_RDWR | os.O_CLOEXEC)

    def release(self, file: LocalFile) -> None:
        """One user less; the last one closes the descriptor."""
        file.users -= 1
        if file.users > 0:
            return
        if self._open.get(file.path) is file:
            self._open.remove(file.path)
        if file.descriptor >= 0:
            self._recent.pop(file, None)
            self._close_descriptor(file)


def _remainder(parts: Sequence[Buffer], written: int) -> list[Buffer]:
    """What is left of the parts after `written` bytes."""
    for index, part in enumerate(parts):
        if written < len(part):
            return [memoryview(part)[written:], *parts[index + 1 :]]
        written -= len(part)
    return []


def _sync_contents(descriptor: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):
        # macOS: fsync alone leaves the data in the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _make_durably(root: str) -> None:
    """Make the data folder where it is missing, and its name as durable as what will be written into it. A power cut
    may have come between the two the last time, so that its parent is synced whoever made it."""
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
