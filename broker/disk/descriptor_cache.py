"""Open files, and descriptors for those of them that were used last.

Rules. A file that has not been used for long may have no descriptor, and gets one on its next use. When the system has
no more, room is made in the cache; other threads use the spare ones. A lack of descriptors is never the failure of a
write or a sync.
A cache belongs to one thread. Syncs, writes in place and `read_apart` may come from any: they run on a duplicate of the
descriptor, so that the owner may meanwhile close, rename or evict the file; the lock is held only while a descriptor is
closed or duplicated.
"""

import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import cast

from broker.disk.file_region import FileRegions
from broker.disk.open_files import OpenFiles
from broker.disk.spare_descriptors import NO_DESCRIPTOR, SpareDescriptors
from protocol.schema import Buffer

PARTS_PER_WRITE = min(1024, os.sysconf("SC_IOV_MAX"))


class LocalFile:
    """One file, shared by all who have it open; see `storage.files.File`."""

    __slots__ = ("_size", "cache", "descriptor", "path", "users")

    shares_commits = False

    def __init__(self, cache: "DescriptorCache", path: str, descriptor: int) -> None:
        self.cache = cache
        self._size = os.fstat(descriptor).st_size
        self.descriptor = descriptor
        self.path = path
        self.users = 0

    def append(self, parts: Sequence[Buffer]) -> None:
        descriptor = self.cache.descriptor_of(self)
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
        return os.pread(self.cache.descriptor_of(self), size, position)

    def read_apart(self, position: int, size: int) -> bytes:
        descriptor = self.cache.duplicate(self)
        try:
            return os.pread(descriptor, size, position)
        finally:
            self.cache.spares.close(descriptor)

    def read_to_send(self, position: int, size: int) -> Buffer:
        region = self.cache.regions.of(self.cache.descriptor_of(self), position, size)
        if region is None:
            return self.read(position, size)
        return cast(Buffer, region)  # of which nobody asks more than its length; see `File.read_to_send`

    def write_at(self, position: int, data: Buffer) -> None:
        descriptor = self.cache.duplicate(self)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, position)
                view, position = view[written:], position + written
        finally:
            self.cache.spares.close(descriptor)
        if position > self._size:
            self._size = position

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.cache.descriptor_of(self), size)
        self._size = size

    def sync(self) -> None:
        descriptor = self.cache.duplicate(self)
        try:
            sync_contents(descriptor)
        finally:
            self.cache.spares.close(descriptor)

    commit = sync

    def close(self) -> None:
        self.cache.release(self)


class DescriptorCache:
    """See the head of this file. `absolute` makes a path of the data folder one of the system; at most `most` files
    have a descriptor at a time."""

    def __init__(
        self, absolute: Callable[[str], str], spares: SpareDescriptors, regions: FileRegions, *, most: int
    ) -> None:
        self.spares = spares
        self.regions = regions
        self.lock = threading.Lock()
        self._absolute = absolute
        self._most = most
        self._open = OpenFiles()
        self._recent: OrderedDict[LocalFile, None] = OrderedDict()

    def open(self, path: str, *, create: bool) -> LocalFile:
        """A file, one user more."""
        file = self._open.get(path)
        if file is None:
            file = LocalFile(self, path, self._descriptor(path, os.O_CREAT if create else 0))
            self._open.add(path, file)
            self._keep(file)
        file.users += 1
        return file

    def moved(self, source: str, target: str) -> None:
        """A file or a folder has another name now. To be called with the lock held since before it got it."""
        self._open.moved(source, target)

    def deleted(self, path: str) -> None:
        """The name is free: opening it opens another file."""
        self._open.remove(path)

    def give_to(self, other: "DescriptorCache") -> None:
        """Let another cache have all that is open here; open files stay open."""
        for file in self._open.all():
            self._open.remove(file.path)
            file.cache = other
            other._open.add(file.path, file)
        for file in self._recent:  # one whose name was deleted is not among those above
            file.cache = other
            other._keep(file)
        self._recent.clear()

    def close_all(self) -> None:
        """Close every descriptor."""
        with self.lock:
            for file in self._recent:
                os.close(file.descriptor)
                file.descriptor = -1
            self._recent.clear()

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
        while len(self._recent) > self._most:
            self._close_oldest()

    def _close_oldest(self) -> None:
        oldest, _ = self._recent.popitem(last=False)
        self._close_descriptor(oldest)

    def _close_descriptor(self, file: LocalFile) -> None:
        with self.lock:
            descriptor, file.descriptor = file.descriptor, -1
            self.spares.close(descriptor)

    def duplicate(self, file: LocalFile) -> int:
        """A descriptor of the caller's own, from any thread; outside the cache, which belongs to one. To be closed by
        `spares`."""
        with self.lock:
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


def sync_contents(descriptor: int) -> None:
    """What was written is on the disk when this returns, its name not included."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        # macOS: fsync alone leaves the data in the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)
