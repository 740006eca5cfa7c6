"""Checksums of a file that only grows: of all of it, and of each of its blocks, so that what is read later can be
compared with what was written."""

from crc32c import crc32c

from protocol.schema import Buffer


class CheckedBlocks:
    """See the head of this file. Of a file that nobody has read or written yet nothing is known."""

    def __init__(self, block_bytes: int, *, is_empty: bool) -> None:
        self._block_bytes = block_bytes
        self.whole: int | None = 0 if is_empty else None
        """crc32c of all bytes, where it is known."""
        self._blocks: list[int] = []
        self._size_bytes = 0

    def know(self, data: Buffer) -> int:
        """This is all of the file; its checksum."""
        self.whole = whole = crc32c(data)
        step = self._block_bytes
        self._blocks = [crc32c(data[at : at + step]) for at in range(0, len(data), step)]
        self._size_bytes = len(data)
        return whole

    def append(self, data: Buffer) -> None:
        """The file has grown, and the last block is not more than full."""
        if self.whole is None:
            return
        self.whole = crc32c(data, self.whole)
        if self._size_bytes % self._block_bytes == 0:
            self._blocks.append(0)
        self._blocks[-1] = crc32c(data, self._blocks[-1])
        self._size_bytes += len(data)

    def are_in(self, data: Buffer, position: int) -> bool:
        """Whether the whole blocks that are read from `position` on are what was written, as far as that is known."""
        if self.whole is None:
            return True
        step = self._block_bytes
        first = position // step
        found = [crc32c(data[at : at + step]) for at in range(0, len(data), step)]
        return found == self._blocks[first : first + len(found)]
