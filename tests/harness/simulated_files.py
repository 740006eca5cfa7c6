"""A disk in memory that forgets what was not synced: `storage.files.Files` for crash tests and simulations.

It is harsher than most file systems. A written byte survives a power cut for certain only if its file was synced
since, a name (created, renamed, deleted) only if its folder was. Of what was not synced, each write survives
whole, in part or not at all, independently of later ones; of the changes to a folder a prefix survives.

`crash(random)` gives the disk as it is found after a power cut; `kill()` as after `kill -9`: nothing is lost then.
Both give a new object; whoever still holds the old one writes into the void, as a dead process does.
`capacity_bytes` makes it full, `fault` makes chosen operations fail. After a sync that failed, the next one succeeds
and brings nothing to the disk of what was written before: that is how Linux does it.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random

from protocol.schema import Buffer

Fault = Callable[[str, str], OSError | None]
"""(operation, path) -> the error it meets, or None. Operations are the names of the methods of `Files` and `File`."""


class FileNode:
    """The bytes of a file: as they are read now, as they are on the disk, and what lies between."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, data) of a write, (size, None) of a truncation."""

    def write(self, position: int, data: bytes) -> None:
        if position > len(self.content):
            self.content.extend(bytes(position - len(self.content)))
        self.content[position : position + len(data)] = data
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        self.pending.append((size, None))

    def sync(self) -> None:
        """Bring to the disk what passes for dirty."""
        if self.pending:
            found = FileNode()
            found.content = bytearray(self.durable)
            for position, data in self.pending:
                if data is None:
                    found.truncate(position)
                else:
                    found.write(position, data)
            self.durable = bytes(found.content)
            self.pending.clear()

    def sync_failed(self) -> None:
        """As Linux has it: the pages pass for clean now, be it that the disk has never seen them."""
        self.pending.clear()

    def after_crash(self, random: Random) -> "FileNode":
        found = FileNode()
        found.content, found.durable = bytearray(self.durable), self.durable
        for position, data in self.pending:
            fate = random.randrange(3)
            if fate == 0:
                continue
            if data is None:
                found.truncate(position)
            else:
                found.write(position, data if fate == 1 else data[: random.randrange(len(data) + 1)])
        found.sync()
        return found

    def copy(self) -> "FileNode":
        found = FileNode()
        found.content, found.durable, found.pending = bytearray(self.content), self.durable, list(self.pending)
        return found


Node = "FileNode | FolderNode"


class FolderNode:
    """The names in a folder, with the same three views."""

    def __init__(self) -> None:
        self.entries: dict[str, FileNode | FolderNode] = {}
        self.durable: dict[str, FileNode | FolderNode] = {}
        self.pending: list[dict[str, FileNode | FolderNode | None]] = []

    def change(self, changes: dict[str, "FileNode | FolderNode | None"]) -> None:
        """One atomic change: names that come, and names (None) that go."""
        _apply(self.entries, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def after_crash(self, random: Random) -> "FolderNode":
        names = dict(self.durable)
        for changes in self.pending[: random.randrange(len(self.pending) + 1)]:
            _apply(names, changes)
        found = FolderNode()
        found.entries = {name: node.after_crash(random) for name, node in sorted(names.items())}
        found.sync()
        return found

    def copy(self) -> "FolderNode":
        found = FolderNode()
        copies = {id(node): node.copy() for node in [*self.entries.values(), *self.durable.values()]}
        found.entries = {name: copies[id(node)] for name, node in self.entries.items()}
        found.durable = {name: copies[id(node)] for name, node in self.durable.items()}
        found.pending = [
            {name: None if node is None else copies.get(id(node)) or node.copy() for name, node in changes.items()}
            for changes in self.pending
        ]
        return found


def _apply(entries: dict[str, FileNode | FolderNode], changes: dict[str, FileNode | FolderNode | None]) -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class SimulatedFile:
    """An open file of the simulated disk; it follows its node through renames."""

    def __init__(self, files: "SimulatedFiles", path: str, node: FileNode) -> None:
        self._files = files
        self._path = path
        self._node = node

    def append(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        self._files.check("append", self._path)
        room = self._files.room()
        if room is not None and len(data) > room:
            self._node.write(len(self._node.content), data[:room])
            raise OSError(errno.ENOSPC, "No space left on device", self._path)
        self._node.write(len(self._node.content), data)

    def read(self, position: int, size: int) -> bytes:
        self._files.check("read", self._path)
        return bytes(self._node.content[position : position + size])

    def read_to_send(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._files.check("write_at", self._path)
        self._node.write(position, bytes(data))

    def size(self) -> int:
        return len(self._node.content)

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self._path)
        self._node.truncate(size)

    def sync(self) -> None:
        try:
            self._files.check("sync", self._path)
        except OSError:
            self._node.sync_failed()
            raise
        self._node.sync()

    def close(self) -> None:
        """Closing does not sync."""


class SimulatedFiles:
    """See the head of this file."""

    def __init__(self, root: FolderNode | None = None) -> None:
        self.root = root or FolderNode()
        self.capacity_bytes: int | None = None
        self.fault: Fault | None = None
        self.syncs: list[str] = []
        """What was synced, in order, for tests about the order."""

    def crash(self, random: Random) -> "SimulatedFiles":
        """The disk after a power cut."""
        return SimulatedFiles(self.root.after_crash(random))

    def kill(self) -> "SimulatedFiles":
        """The page cache after `kill -9`: all is still there, and still not synced."""
        return SimulatedFiles(self.root.copy())

    def check(self, operation: str, path: str) -> None:
        """Meet the fault that is planned for this operation."""
        if operation in ("sync", "sync_folder", "write_whole"):
            self.syncs.append(path)
        if self.fault is not None and (error := self.fault(operation, path)) is not None:
            raise error

    def room(self) -> int | None:
        """How many bytes still fit."""
        return None if self.capacity_bytes is None else max(0, self.capacity_bytes - _size_of(self.root))

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.check("open", path)
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            node = FileNode()
            folder.change({name: node})
        assert isinstance(node, FileNode), f"{path} is a folder"
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
                node.change({name: FolderNode()})
            below = node.entries[name]
            assert isinstance(below, FolderNode), f"{path} leads through a file"
            node = below

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
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

    def delete(self, path: str) -> None:
        self.check("delete", path)
        if self.exists(path):
            folder, name = self._parent(path)
            folder.change({name: None})

    delete_folder = delete

    def sync_folder(self, path: str) -> None:
        self.check("sync_folder", path)
        self._folder(path).sync()

    def write_whole(self, path: str, data: Buffer) -> None:
        self.check("write_whole", path)
        node = FileNode()
        node.write(0, bytes(data))
        node.sync()
        folder, name = self._parent(path)
        folder.change({name: node})
        folder.sync()

    def _folder(self, path: str) -> FolderNode:
        node = self.root
        for name in path.split("/") if path else []:
            below = node.entries.get(name)
            if not isinstance(below, FolderNode):
                raise FileNotFoundError(errno.ENOENT, "No such folder", path)
            node = below
        return node

    def _parent(self, path: str) -> tuple[FolderNode, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name


def _size_of(node: FileNode | FolderNode) -> int:
    if isinstance(node, FileNode):
        return len(node.content)
    return sum(_size_of(below) for below in node.entries.values())
