"""The file of a segment whose small appends are made durable by a write-ahead log. Where much was appended at once, the
file is synced by itself: nothing large is written twice.
"""

from collections.abc import Callable, Sequence

from protocol.schema import Buffer
from storage.files import File
from storage.write_ahead.write_ahead_log import WriteAheadLog

LARGE_BYTES = 32 << 10
"""An append from this size on is not worth writing twice."""
UNCOVERED = -LARGE_BYTES
"""Until a cut is on the disk: what is put behind it would stand before what was cut off."""


class WriteAheadFile:
    """See `storage.files.File`. `_covered_to`: up to there it is durable, or the write-ahead log has it; lower than
    that is always safe to say."""

    __slots__ = (
        "_covered_to",
        "_cuts",
        "_file",
        "_log",
        "_path",
        "_ticket",
        "close",
        "read",
        "read_apart",
        "read_to_send",
        "size",
    )

    def __init__(self, file: File, path: str, log: WriteAheadLog) -> None:
        self._file = file
        self._path = path
        self._log = log
        self._covered_to = self._cuts = self._ticket = 0
        self.read: Callable[[int, int], bytes] = file.read
        self.read_apart: Callable[[int, int], bytes] = file.read_apart
        self.read_to_send: Callable[[int, int], Buffer] = file.read_to_send
        self.size: Callable[[], int] = file.size
        self.close: Callable[[], None] = file.close

    def append(self, parts: Sequence[Buffer]) -> None:
        file, log = self._file, self._log
        position = file.size()
        file.append(parts)
        if not log.is_ready:
            return
        covered, end = self._covered_to, file.size()
        if end - covered >= LARGE_BYTES:
            return
        if covered < position:
            parts = (file.read(covered, position - covered), *parts)
        self._ticket = log.add(self._path, file, covered, parts, end - covered)
        self._covered_to = end

    @property
    def shares_commits(self) -> bool:
        return self._covered_to >= self._file.size()

    def commit(self) -> None:
        size = self._file.size()
        if self._covered_to >= size:
            self._log.commit(self._ticket)
            return
        if size - self._covered_to < LARGE_BYTES and not self._log.is_ready:
            self._log.missed()
        self.sync()

    def sync(self) -> None:
        size, cuts = self._file.size(), self._cuts
        self._file.sync()
        with self._log.lock:
            if cuts == self._cuts:
                self._covered_to = size

    def write_at(self, position: int, data: Buffer) -> None:
        self._uncovered(position)
        self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        self._log.settle(self._path)
        self._file.truncate(size)
        self._uncovered(UNCOVERED)

    def _uncovered(self, position: int) -> None:
        with self._log.lock:
            self._cuts += 1
            self._covered_to = min(self._covered_to, position)
