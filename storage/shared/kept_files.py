"""What is written down beside a log in a shared store: small files in memory, which go there together or not at all.

version u8 = 1 | crc32c u32 of all that follows | count u32 | count times: length u16, name, length u32, contents
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from protocol.schema import Buffer
from storage.files import File, FilesBeside, InPlaceFile, Space

_HEAD = struct.Struct(">BI")
_COUNT = struct.Struct(">I")
_NAME = struct.Struct(">H")
_VERSION = 1
LONGEST_NAME = 255


class KeptUnreadable(Exception):
    """What was written down is damaged, or of a later version."""


class KeptFiles:
    """A folder of files, as `storage.files.Files` describes it. Nothing of it is durable before the log's next commit,
    which takes all of it along. One thread may write a file while another takes all of them."""

    def __init__(self, contents: dict[str, bytearray] | None = None) -> None:
        self._contents = contents or {}

    @classmethod
    def from_bytes(cls, data: bytes) -> "KeptFiles":
        """What `to_bytes` made; nothing at all is an empty folder. Raises `KeptUnreadable`."""
        if not data:
            return cls()
        try:
            version, crc = _HEAD.unpack_from(data)
            if version != _VERSION or crc != crc32c(memoryview(data)[_HEAD.size :]):
                raise KeptUnreadable(f"version {version}, or a checksum that is wrong")
            position = _HEAD.size + _COUNT.size
            contents: dict[str, bytearray] = {}
            for _ in range(_COUNT.unpack_from(data, _HEAD.size)[0]):
                name, position = _piece(data, position, _NAME)
                contents[name.decode()], position = _piece(data, position, _COUNT)
        except (struct.error, UnicodeDecodeError) as error:
            raise KeptUnreadable(str(error)) from error
        return cls(contents)

    def to_bytes(self) -> bytes:
        """All of it."""
        files = [(name.encode(), bytes(contents)) for name, contents in self._contents.copy().items()]
        parts: list[Buffer] = [_COUNT.pack(len(files))]
        for name, contents in files:
            parts += [_NAME.pack(len(name)), name, _COUNT.pack(len(contents)), contents]
        crc = 0
        for part in parts:
            crc = crc32c(part, crc)
        return b"".join([_HEAD.pack(_VERSION, crc), *parts])

    # -- storage.files.Files -----------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            self._contents.setdefault(path, bytearray())
        try:
            return _KeptFile(self._contents[path])
        except KeyError:
            raise FileNotFoundError(path) from None

    def open_in_place(self, path: str) -> InPlaceFile:
        raise NotImplementedError("commits of the store make it durable")

    def exists(self, path: str) -> bool:
        return path in self._contents

    def list(self, folder: str) -> list[str]:
        return sorted(path[len(folder) + 1 :] for path in self._contents.copy() if path.startswith(f"{folder}/"))

    def make_folder(self, path: str) -> None:
        """Folders are names."""

    def leaving(self, paths: Sequence[str]) -> None:
        """They need nothing."""

    def rename(self, source: str, target: str) -> None:
        self._contents[target] = self._contents.pop(source)

    def delete(self, path: str) -> None:
        self._contents.pop(path, None)

    def delete_folder(self, path: str) -> None:
        for name in self.list(path):
            del self._contents[f"{path}/{name}"]

    def longest_name(self) -> int:
        return LONGEST_NAME

    def space(self) -> Space:
        return Space(-1, -1)

    def sync_folder(self, path: str) -> None:
        """The log's next commit does it."""

    def write_whole(self, path: str, *parts: Buffer) -> None:
        self._contents[path] = bytearray(b"".join(parts))

    def beside(self) -> FilesBeside:
        raise NotImplementedError("nothing here takes long")


@dataclass(slots=True)
class _KeptFile:
    """See `storage.files.File`."""

    _contents: bytearray = field(repr=False)

    def append(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._contents += part

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._contents[position : position + size])

    def read_apart(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def read_to_send(self, position: int, size: int) -> Buffer:
        return self.read(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._contents[position : position + len(data)] = data

    def size(self) -> int:
        return len(self._contents)

    def truncate(self, size: int) -> None:
        del self._contents[size:]

    def sync(self) -> None:
        """The log's next commit does it."""

    commit = sync

    @property
    def shares_commits(self) -> bool:
        return False

    def close(self) -> None:
        """There is no descriptor."""


def _piece(data: bytes, position: int, length: struct.Struct) -> tuple[bytearray, int]:
    (size,) = length.unpack_from(data, position)
    begin = position + length.size
    if begin + size > len(data):
        raise KeptUnreadable("it is cut short")
    return bytearray(data[begin : begin + size]), begin + size
