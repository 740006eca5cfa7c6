"""Pieces of files, each kept once, by its SHA-256.

    pieces/3f/3f0c…            a large piece: a file of its own
    packs/20260301T120000Z     the small ones of one backup, one behind the other

Each is whole under its name: it gets the name when it is on the disk. A pack that still ends in `.being-written` is
of a backup that has not come to its end. A pack may outlive the backup that it is named after: later ones need it, too.
"""

import os
from collections.abc import Iterable
from errno import EIO, EISDIR
from hashlib import sha256
from typing import NamedTuple

from protocol.schema import Buffer

PIECES, PACKS = "pieces", "packs"
BEING_WRITTEN = ".being-written"
TEMPORARY = PIECES + "/piece" + BEING_WRITTEN
PIECE_BYTES = 32 << 20
PACKED_BELOW = 256 << 10
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
UNREADABLE = (EIO, EISDIR)
"""What a disk says of damage, beside giving other bytes. That somebody may not read a file is no damage."""


class Damaged(Exception):
    """A backup is not what was written; the message says where."""


class Piece(NamedTuple):
    """Where a piece is: a file of its own, or bytes of a pack."""

    sha256: str
    size: int
    pack: str = ""
    offset: int = 0

    @property
    def path(self) -> str:
        """Of its file, in the folder of the backups."""
        return f"{PACKS}/{self.pack}" if self.pack else f"{PIECES}/{self.sha256[:2]}/{self.sha256}"


class PieceStore:
    """Those of one backup that is being made. `known` are pieces that are there already; where they are not trusted,
    they are read, and written anew if they are damaged."""

    def __init__(self, root: str, backup_id: str, known: Iterable[Piece], *, trusted: bool = True) -> None:
        self.new_bytes = 0
        self._root = root
        self._backup_id = backup_id
        self._sizes: dict[str, int] = {}
        """Of files that were looked at."""
        self._reader = None if trusted else PieceReader(root)
        self._read: dict[Piece, bool] = {}
        """Whether they were whole."""
        self._known = {(one.sha256, one.size): one for one in known if self.has(one)}
        self._folders: set[str] = {PACKS}
        self._pack_path = f"{root}/{PACKS}/{backup_id}"
        self._pack = os.open(self._pack_path + BEING_WRITTEN, write_new(), PRIVATE_FILE)
        self._pack_bytes = 0

    def has(self, piece: Piece) -> bool:
        """Whether its file is there, and is not too short; where it is not trusted, whether it is whole."""
        if self._reader is not None:
            if piece not in self._read:
                self._read[piece] = self._reader.is_whole(piece)
            return self._read[piece]
        size = self._sizes.get(piece.path)
        if size is None:
            try:
                size = os.stat(f"{self._root}/{piece.path}").st_size
            except FileNotFoundError:
                size = -1
            self._sizes[piece.path] = size
        return piece.offset + piece.size <= size

    def add(self, data: Buffer) -> Piece:
        """Keep these bytes, if they are not there yet. Raises `OSError`."""
        digest = sha256(data).hexdigest()
        found = self._known.get((digest, len(data)))
        if found is None:
            packed = len(data) < PACKED_BELOW
            found = self._packed(digest, data) if packed else self._written(digest, data)
            self._known[digest, len(data)] = found
        return found

    def _packed(self, digest: str, data: Buffer) -> Piece:
        piece = Piece(digest, len(data), self._backup_id, self._pack_bytes)
        write_all(self._pack, data)
        self._pack_bytes += len(data)
        self.new_bytes += len(data)
        return piece

    def _written(self, digest: str, data: Buffer) -> Piece:
        piece = Piece(digest, len(data))
        path = f"{self._root}/{piece.path}"
        folder = os.path.dirname(piece.path)
        if folder not in self._folders:
            os.makedirs(f"{self._root}/{folder}", PRIVATE_FOLDER, exist_ok=True)
            self._folders |= {folder, PIECES}
        if not self.has(piece):  # else it is of a backup that did not come to its end, or of an older one
            descriptor = os.open(f"{self._root}/{TEMPORARY}", write_new(), PRIVATE_FILE)
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(f"{self._root}/{TEMPORARY}", path)
            self.new_bytes += len(data)
        return piece

    def finish(self) -> None:
        """All of them are on the disk when it returns. Raises `OSError`."""
        os.fsync(self._pack)
        self.close()
        if self._pack_bytes:
            os.rename(self._pack_path + BEING_WRITTEN, self._pack_path)
        else:
            os.unlink(self._pack_path + BEING_WRITTEN)
        for folder in sorted(self._folders):
            sync_folder(f"{self._root}/{folder}")

    def close(self) -> None:
        """Safe to call twice."""
        if self._reader is not None:
            self._reader.close()
        if self._pack >= 0:
            os.close(self._pack)
            self._pack = -1


class PieceReader:
    """Reads pieces, and compares each with its checksum."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path, self._descriptor = "", -1

    def read(self, piece: Piece) -> bytes:
        """Raises `Damaged`, `OSError`."""
        try:
            data = self._bytes_of(piece)
        except FileNotFoundError:
            raise Damaged(f"{piece.path} is missing") from None
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            raise Damaged(f"{piece.path} cannot be read: {error.strerror}") from None
        if len(data) < piece.size:
            raise Damaged(f"{piece.path} is too short: {piece.size} bytes are wanted from byte {piece.offset} on")
        if sha256(data).hexdigest() != piece.sha256:
            raise Damaged(f"{piece.path} is damaged: {piece.size} bytes from byte {piece.offset} on are others")
        return data

    def _bytes_of(self, piece: Piece) -> bytes:
        if piece.path != self._path:
            self.close()
            self._descriptor = os.open(f"{self._root}/{piece.path}", os.O_RDONLY | os.O_CLOEXEC)
            self._path = piece.path
        return read_at(self._descriptor, piece.offset, piece.size)

    def is_whole(self, piece: Piece) -> bool:
        """Raises `OSError`."""
        try:
            self.read(piece)
        except Damaged:
            return False
        return True

    def close(self) -> None:
        """Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = "", -1


def write_new() -> int:
    """Flags for a file that is written from its beginning."""
    return os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def write_all(descriptor: int, data: Buffer) -> None:
    """However many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_at(descriptor: int, position: int, size: int) -> bytes:
    """So many bytes; fewer at the end of the file."""
    parts = []
    while size and (part := os.pread(descriptor, size, position)):
        parts.append(part)
        position, size = position + len(part), size - len(part)
    return b"".join(parts)


def sync_folder(path: str) -> None:
    """The names in it are on the disk when it returns."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
