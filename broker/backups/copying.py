"""Making a backup: every file of the data folder as pieces, of which only those are copied that are new.

What need not even be read: a segment that is written to no more, and is the same file with the same size and time as
in the backup before; and what a segment had already in the same life of the broker and of the topic, since it has only
grown. Neither where the topic is compacted: another file may have taken its place. All else is read, and compared by
its checksums.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from broker.backups.manifest import FileEntry, Head, Manifest
from broker.backups.pieces import PIECE_BYTES, Piece, PieceStore, read_at
from broker.backups.source import Source, SourceFile
from broker.backups.target import Refused, Target
from storage.checkpoints import PARTITION_METADATA
from storage.segments.segment_format import LOG

ATTEMPTS = 3
OnProgress = Callable[[int, int], None]
"""Called with how many bytes are done, of how many."""


@dataclass(slots=True)
class Copied:
    """What became of it."""

    manifest: Manifest
    read_bytes: int
    cleaned: list[str]
    """Backups that had not come to their end."""


def copy(source: Source, target: Target, head: Head, on_progress: OnProgress, *, whole: bool) -> Copied:
    """Add a backup, under the lock of the target. `whole`: read everything, believe no size and no time,
    and write anew what is damaged of the pieces that are there. Raises
    `Refused`, `OSError`; then there is none."""
    cleaned = target.clean()
    before = target.newest_readable()
    known = [] if before is None else [piece for one in before.files.values() for piece in one.pieces]
    store = PieceStore(target.root, head.id, known, trusted=not whole)
    try:
        copier = _Copier(store, head, before, whole=whole)
        made = Manifest(head)
        total, done = sum(_size(one) for one in source.files), 0
        for file in source.files:
            entry = made.files[file.path] = copier.copy(file)
            done += entry.size
            on_progress(done, max(done, total))
        for path, data in source.made.items():
            pieces = (store.add(data),)
            made.files[path] = FileEntry(path, len(data), head.taken_ms * 1_000_000, 0, 0, False, True, pieces)
        store.finish()
        made.new_bytes = store.new_bytes
        target.add(made)
    except BaseException:
        store.close()
        target.clean()
        raise
    return Copied(made, copier.read_bytes, cleaned)


def _size(file: SourceFile) -> int:
    return os.stat(file.absolute).st_size if file.length is None else file.length


class _Copier:
    def __init__(self, store: PieceStore, head: Head, before: Manifest | None, *, whole: bool) -> None:
        self.read_bytes = 0
        self._store = store
        self._before = {} if before is None else before.files
        self._grows = before is not None and before.head.life == head.life != "" and not whole
        self._whole = whole
        self._topics: dict[str, bool] = {}

    def copy(self, file: SourceFile) -> FileEntry:
        """Raises `Refused`, `OSError`."""
        descriptor = os.open(file.absolute, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(ATTEMPTS):
                found = os.fstat(descriptor)
                entry = self._copy(file, descriptor, found)
                now = os.fstat(descriptor)
                same = file.length is not None or (now.st_size, now.st_mtime_ns) == (found.st_size, found.st_mtime_ns)
                if entry is not None and same:
                    return entry
        finally:
            os.close(descriptor)
        raise Refused(f"{file.path} is being written to while it is copied")

    def _copy(self, file: SourceFile, descriptor: int, found: os.stat_result) -> FileEntry | None:
        """None where it ends too early."""
        size = found.st_size if file.length is None else file.length
        before = self._before.get(file.path)
        pieces = self._unread(file, found, size, before)
        position = sum(one.size for one in pieces)
        expected = iter([] if before is None else before.pieces[len(pieces) :])
        while position < size:
            same = next(expected, None)
            wanted = min(size - position, PIECE_BYTES if same is None else same.size)
            data = read_at(descriptor, position, wanted)
            if len(data) < wanted:
                if file.length is None:
                    return None  # an index that is being made anew
                raise Refused(f"{file.path} ends at byte {position + len(data)}, and was {size} bytes long")
            pieces.append(self._store.add(data))
            position += wanted
            self.read_bytes += wanted
        mtime_ns = found.st_mtime_ns
        return FileEntry(
            file.path, size, mtime_ns, found.st_dev, found.st_ino, file.final, file.compacted, tuple(pieces)
        )

    def _unread(self, file: SourceFile, found: os.stat_result, size: int, before: FileEntry | None) -> list[Piece]:
        """The first pieces of it, of which it is known without reading that they are the same."""
        if before is None or self._whole or file.compacted or before.compacted:
            return []
        if (before.dev, before.ino) != (found.st_dev, found.st_ino):
            return []
        is_same = file.final and before.final and (before.size, before.mtime_ns) == (size, found.st_mtime_ns)
        has_grown = self._grows and file.path.endswith(LOG) and not before.final and before.size <= size
        has_grown = has_grown and self._is_same_topic(file)
        there = all(self._store.has(piece) for piece in before.pieces)
        return list(before.pieces) if (is_same or has_grown) and there else []

    def _is_same_topic(self, file: SourceFile) -> bool:
        """Another one of the same name may have got the inode of the one that was deleted."""
        folder = os.path.dirname(file.path)
        found = self._topics.get(folder)
        if found is None:
            before = self._before.get(f"{folder}/{PARTITION_METADATA}")
            path = f"{os.path.dirname(file.absolute)}/{PARTITION_METADATA}"
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                found = before is None
            else:
                try:
                    digest = sha256(read_at(descriptor, 0, PIECE_BYTES)).hexdigest()
                finally:
                    os.close(descriptor)
                found = before is not None and [piece.sha256 for piece in before.pieces] == [digest]
            self._topics[folder] = found
        return found
