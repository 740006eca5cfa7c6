"""A disk in memory that forgets what was not synced: `storage.files.Files` for simulations, scenarios and unit tests.

A written byte survives a power cut for certain only if its file was synced since; a name (created, renamed, deleted)
only if its folder was. Of the writes to a file that were not synced a prefix survives, the last of it torn anywhere;
on a harsher disk (`any_subset`) each of them on its own, whole, torn or not at all. Of the changes to a folder a prefix
survives. After `kill -9` nothing is lost.

A sync that fails takes what was written for clean, as Linux does: it stays in the page cache, where everybody reads it,
and no later sync brings it to the disk unless it is written once more.

Bytes are kept once, with what would undo the writes since the last sync; a sync costs nothing. Only a file whose sync
has failed keeps a second copy: what the platter holds.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random

from protocol.schema import Buffer
from tests.harness.loop import ProcessDied

Watcher = Callable[[str, str], None]
"""Called before each (operation, path): it may raise `OSError`, or end the process."""


Pending = tuple[int, bytes, bytes | None]
"""A write as (position, what stood there, what was written); `None` written is a truncation to that position."""


class Inode:
    """The bytes of a file as the page cache has them, and the writes since the last sync.

    `platter` is what the disk has where that is not the content without those writes: after a sync that failed.
    """

    __slots__ = ("content", "pending", "platter")

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.content = bytearray(content)
        self.pending: list[Pending] = []
        self.platter: bytearray | None = None

    def write(self, position: int, data: bytes) -> None:
        content = self.content
        size = len(content)
        if position == size:
            self.pending.append((position, b"", data))
            content += data
            return
        if position > size:
            gap = bytes(position - size)
            self.pending.append((size, b"", gap))
            content += gap
        self.pending.append((position, bytes(content[position : position + len(data)]), data))
        content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self.pending.append((size, bytes(self.content[size:]), None))
        del self.content[size:]

    def sync(self) -> None:
        """What was written since the last sync, failed or not, is on the disk."""
        if self.platter is not None:
            for position, _, written in self.pending:
                _put(self.platter, position, written)
            if self.platter == self.content:
                self.platter = None
        self.pending.clear()

    def sync_failed(self) -> None:
        """Nothing of it is, and no later sync will make up for it."""
        self.platter = self._on_platter()
        self.pending.clear()

    def after_power_cut(self, random: Random, any_subset: bool) -> "Inode":
        found = Inode(self._on_platter())
        if not self.pending:
            return found
        keep = random.randrange(len(self.pending) + 1)
        for index, (position, _, written) in enumerate(self.pending):
            fate = random.randrange(3) if any_subset else (1 if index < keep else 2 if index == keep else 0)
            if fate == 0:
                continue
            if written is None:
                if fate == 1:
                    _put(found.content, position, None)
            else:
                _put(found.content, position, written if fate == 1 else _torn(written, random))
        return found

    def _on_platter(self) -> bytearray:
        """The bytes that are on the disk for certain."""
        if self.platter is not None:
            return bytearray(self.platter)
        found = bytearray(self.content)
        for position, before, written in reversed(self.pending):
            found[position : position + (0 if written is None else len(written))] = before
        return found

    def copy(self) -> "Inode":
        found = Inode(self.content)
        found.pending = list(self.pending)
        found.platter = None if self.platter is None else bytearray(self.platter)
        return found


def _put(content: bytearray, position: int, written: bytes | None) -> None:
    """A write, or a truncation, where the bytes before it may be missing."""
    if written is None:
        del content[position:]
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(written)] = written


def _torn(data: bytes, random: Random) -> bytes:
    """A part of a write: to the end of a sector, or anywhere."""
    cut = random.randrange(len(data) + 1)
    if random.random() < 0.5 and cut > 512:
        cut -= cut % 512
    return data[:cut]


class Folder:
    """Names, and the changes since the last sync, each an atomic one of several names."""

    __slots__ = ("entries", "pending", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Folder] = {}
        self.synced: dict[str, Inode | Folder] = {}
        self.pending: list[dict[str, Inode | Folder | None]] = []

    def change(self, changes: "dict[str, Inode | Folder | None]") -> None:
        _apply(self.entries, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        for changes in self.pending:
            _apply(self.synced, changes)
        self.pending.clear()

    def after_power_cut(self, random: Random, any_subset: bool) -> "Folder":
        names = dict(self.synced)
        for changes in self.pending[: random.randrange(len(self.pending) + 1)]:
            _apply(names, changes)
        found = Folder()
        found.entries = {name: node.after_power_cut(random, any_subset) for name, node in names.items()}
        found.synced = dict(found.entries)
        return found

    def copy(self) -> "Folder":
        copies: dict[int, Inode | Folder] = {}

        def of(node: Inode | Folder) -> Inode | Folder:
            if id(node) not in copies:
                copies[id(node)] = node.copy()
            return copies[id(node)]

        found = Folder()
        found.entries = {name: of(node) for name, node in self.entries.items()}
        found.synced = {name: of(node) for name, node in self.synced.items()}
        found.pending = [
            {name: None if node is None else of(node) for name, node in changes.items()} for changes in self.pending
        ]
        return found


def _apply(entries: "dict[str, Inode | Folder]", changes: "dict[str, Inode | Folder | None]") -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class SimulatedFile:
    """An open file; it follows its bytes through renames."""

    __slots__ = ("_disk", "_inode", "_path")

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
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
        try:
            self._disk.before("sync", self._path)
        except OSError:
            self._inode.sync_failed()
            raise
        self._inode.sync()
        self._disk.after("sync", self._path)

    def close(self) -> None:
        """Closing does not sync."""


class SimulatedDisk:
    """See the head of this file. `watcher` sees every operation that changes something, before and after it."""

    def __init__(self) -> None:
        self.root = Folder()
        self._known: dict[str, Folder] = {}
        """Folders by path, as far as they were looked for."""
        self.watcher: Watcher | None = None
        self.room_bytes: int | None = None
        self.operations = 0
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
        return SimulatedFile(self, path, node)

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
            self._moved(folder.entries[name])
            folder.change({name: None})

    delete_folder = delete

    def longest_name(self) -> int:
        return 255

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
        folder, name = self._parent(path)
        inode = folder.entries[name]
        assert isinstance(inode, Inode) and not inode.pending, f"{path} is not synced"
        inode.content[position] ^= 1

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
