"""A disk in memory that forgets what was not synced: `storage.files.Files` for simulations, scenarios and unit tests.

A written byte survives a power cut for certain only if its file was synced since; a name (created, renamed, deleted)
only if its folder was. Of the writes to a file that were not synced a prefix survives, the last of it torn anywhere;
on a harsher disk (`any_subset`) each of them on its own, whole, torn or not at all. Of the changes to a folder a prefix
survives. After `kill -9` nothing is lost.

A sync that fails takes what was written for clean, as Linux does: it stays in the page cache, where everybody reads it,
and no later sync brings it to the disk unless it is written once more.
"""

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from protocol.schema import Buffer
from storage.files import Space
from tests.harness.loop import ProcessDied
from tests.harness.nothing_beside import NothingBeside
from tests.harness.page_cache import Folder, Inode

Watcher = Callable[[str, str], None]
"""Called before each (operation, path): it may raise `OSError`, or end the process."""


class SimulatedFile:
    """An open file; it follows its bytes through renames. One that was closed can be synced, as on the real disk, as
    long as it has a name to be opened by."""

    __slots__ = ("_closed", "_disk", "_inode", "_path")

    shares_commits = False

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
        self._closed = False
        self._disk = disk
        self._path = path
        self._inode = inode

    def append(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        disk, inode = self._disk, self._inode
        disk.before("append", self._path)
        room = disk.take_room(len(data))
        if room < len(data):
            inode.write(len(inode.content), data[:room])
            raise OSError(errno.ENOSPC, "No space left on device", self._path)
        inode.write(len(inode.content), data)
        disk.after("append", self._path)

    def read(self, position: int, size: int) -> bytes:
        self._disk.before_looking("read", self._path)
        return bytes(self._inode.content[position : position + size])

    read_apart = read

    def read_to_send(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.before("write_at", self._path)
        self._inode.write(position, bytes(data))

    def size(self) -> int:
        return len(self._inode.content)

    def truncate(self, size: int) -> None:
        self._disk.before("truncate", self._path)
        inode = self._inode
        if size > len(inode.content):
            inode.write(len(inode.content), bytes(size - len(inode.content)))
        else:
            inode.truncate(size)

    def sync(self) -> None:
        if self._closed and not self._inode.has_name:
            raise FileNotFoundError(errno.ENOENT, "No such file", self._path)
        try:
            self._disk.before("sync", self._path)
        except OSError:
            self._inode.sync_failed()
            raise
        self._inode.sync()
        self._disk.after("sync", self._path)

    commit = sync

    def close(self) -> None:
        """Closing does not sync."""
        if not self._closed:
            self._disk.held[self._path] -= 1
        self._closed = True


class SimulatedInPlace:
    """See `storage.files.InPlaceFile`."""

    def __init__(self, file: SimulatedFile) -> None:
        self._file = file
        self.close = file.close

    def write(self, position: int, data: Buffer) -> None:
        assert position + len(data) <= self._file.size(), "the file does not become longer"
        self._file.write_at(position, data)
        self._file.sync()


class SimulatedDisk(NothingBeside):
    """See the head of this file. `watcher` sees every operation that changes something, before and after it; `looker`
    those that change nothing, before them."""

    def __init__(self) -> None:
        self.root = Folder()
        self._known: dict[str, Folder] = {}
        """Folders by path, as far as they were looked for."""
        self.watcher: Watcher | None = None
        self.looker: Watcher | None = None
        self.room_bytes: int | None = None
        self.operations = 0
        self.held = Counter[str]()
        """How often files are open, by the path that they were opened by."""
        self.dead = False

    def after_power_cut(self, random: Random, any_subset: bool) -> "SimulatedDisk":
        found = SimulatedDisk()
        found.root = self.root.after_power_cut(random, any_subset)
        self.dead = True
        return found

    def after_kill(self) -> "SimulatedDisk":
        """The page cache has it all; what is left of the dead process can write no more, so nothing is copied."""
        found = SimulatedDisk()
        found.root = self.root
        self.dead = True
        return found

    def before(self, operation: str, path: str) -> None:
        if self.dead:
            raise ProcessDied
        self.operations += 1
        if self.watcher is not None:
            self.watcher(operation, path)

    def before_looking(self, operation: str, path: str) -> None:
        """An operation that changes nothing is about to be done."""
        if self.looker is not None:
            self.looker(operation, path)

    def take_room(self, size: int) -> int:
        """How many of so many bytes still fit; they are taken."""
        if self.room_bytes is None:
            return size
        taken = min(size, self.room_bytes)
        self.room_bytes -= taken
        return taken

    def after(self, operation: str, path: str) -> None:
        if self.watcher is not None:
            self.watcher("after " + operation, path)

    # -- storage.files.Files -------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.before_looking("open", path)
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            self.before("create", path)
            node = Inode()
            folder.change({name: node})
        if not isinstance(node, Inode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        self.held[path] += 1
        return SimulatedFile(self, path, node)

    def open_in_place(self, path: str) -> "SimulatedInPlace":
        return SimulatedInPlace(self.open(path))

    def exists(self, path: str) -> bool:
        try:
            folder, name = self._parent(path)
        except FileNotFoundError:
            return False
        return name in folder.entries

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(self._folder(folder).entries)
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        node = self.root
        for name in path.split("/"):
            if name not in node.entries:
                self.before("make_folder", path)
                node.change({name: Folder()})
            below = node.entries[name]
            assert isinstance(below, Folder), f"{path} leads through a file"
            node = below

    def leaving(self, paths: Sequence[str]) -> None:
        """They need nothing."""

    def rename(self, source: str, target: str) -> None:
        self.before("rename", source)
        old, old_name = self._parent(source)
        new, new_name = self._parent(target)
        node = old.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", source)
        if old is new:
            old.change({old_name: None, new_name: node})
        else:
            new.change({new_name: node})
            old.change({old_name: None})
        self._moved(node)
        self.after("rename", source)

    def delete(self, path: str) -> None:
        if not self.dead and self.exists(path):  # what is left of a dead process tidies up when it is thrown away
            self.before("delete", path)
            folder, name = self._parent(path)
            node = folder.entries[name]
            self._moved(node)
            if isinstance(node, Inode):
                node.has_name = False
            folder.change({name: None})

    delete_folder = delete

    def longest_name(self) -> int:
        return 255

    def space(self) -> Space:
        return Space(1 << 40, 1 << 39)

    def sync_folder(self, path: str) -> None:
        self.before("sync_folder", path)
        self._folder(path).sync()
        self.after("sync_folder", path)

    def write_whole(self, path: str, *parts: Buffer) -> None:
        """As the real one does it, step by step: a crash may come between any two."""
        self.before("write_whole", path)
        folder, name = self._parent(path)
        node = Inode()
        folder.change({name + ".tmp": node})
        node.write(0, b"".join(parts))
        node.sync()
        self.after("write_whole", path)
        folder.change({name + ".tmp": None, name: node})
        self.before("write_whole rename", path)
        folder.sync()

    # -- what befalls files, by no doing of the broker -------------------------------------------------------

    def damage(self, path: str, position: int) -> None:
        """One bit of a file that was synced is another."""
        inode = self.inode(path)
        assert all(position < written for written, _, _ in inode.pending), f"{path} is not synced"
        assert inode.platter is None, f"of {path} two versions are there"
        inode.content[position] ^= 1

    def inode(self, path: str) -> Inode:
        """The bytes of a file. It has to be there."""
        folder, name = self._parent(path)
        inode = folder.entries[name]
        assert isinstance(inode, Inode), f"{path} is a folder"
        return inode

    def spoil(self, path: str, change: Callable[[bytearray], object]) -> None:
        """The bytes of a file are others, as if nobody had ever written what was there."""
        folder, name = self._parent(path)
        spoilt = Inode(self.inode(path).content)
        change(spoilt.content)
        folder.change({name: spoilt})
        folder.sync()

    def lose(self, path: str) -> None:
        """A file is gone."""
        folder, name = self._parent(path)
        folder.change({name: None})
        folder.sync()

    def _folder(self, path: str) -> Folder:
        found = self._known.get(path)
        if found is not None:
            return found
        node = self.root
        for name in path.split("/") if path else []:
            below = node.entries.get(name)
            if not isinstance(below, Folder):
                raise FileNotFoundError(errno.ENOENT, "No such folder", path)
            node = below
        self._known[path] = node
        return node

    def _moved(self, node: Inode | Folder) -> None:
        """It has another name now, or none."""
        if isinstance(node, Folder):
            self._known.clear()

    def _parent(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name
