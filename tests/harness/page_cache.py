"""Files and folders as the page cache has them, and what of them is on the platter.

Bytes are kept once, with what would undo the writes since the last sync; a sync costs nothing. Only a file whose sync
has failed keeps a second copy: what the platter holds.
"""

from random import Random

Pending = tuple[int, bytes, bytes | None]
"""A write as (position, what stood there, what was written); `None` written is a truncation to that position."""


class Inode:
    """The bytes of a file as the page cache has them, and the writes since the last sync.

    `platter` is what the disk has where that is not the content without those writes: after a sync that failed.
    """

    __slots__ = ("content", "has_name", "pending", "platter")

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.has_name = True
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
