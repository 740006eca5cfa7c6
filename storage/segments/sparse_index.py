"""A sparse index: a file of fixed-size entries of two numbers, both rising. Offset and time index are two of them.

Entries are gathered in memory and written out in groups: an index can always be made again from the log,
so it needs no care of its own. Lookups go to the file with few small reads; nothing is held in memory but the
entries not yet written.
"""

from bisect import bisect_right
from struct import Struct

from storage.files import File

Entry = tuple[int, int]
BLOCK_ENTRIES = 256
GROUP_ENTRIES = 64


class SparseIndex:
    """Entries of (first, second); `column` 0 or 1 says by which of the two is searched. `never_before`: another index,
    whose file always has what it had when an entry was added here."""

    def __init__(
        self, file: File, layout: Struct, *, max_bytes: int, never_before: "SparseIndex | None" = None
    ) -> None:
        self._file = file
        self._layout = layout
        self._max_entries = max_bytes // layout.size
        self._never_before = never_before
        self._written = file.size() // layout.size
        self._waiting: list[Entry] = []
        self.last: Entry | None = self._entry(self._written - 1) if self._written else None
        self.is_full = self._written >= self._max_entries

    def __len__(self) -> int:
        return self._written + len(self._waiting)

    @property
    def written_bytes(self) -> int:
        """How much the file has of it; the rest waits."""
        return self._written * self._layout.size

    @property
    def is_torn(self) -> bool:
        """The file is no whole number of entries."""
        return self._file.size() % self._layout.size != 0

    def append(self, first: int, second: int) -> None:
        self._waiting.append((first, second))
        self.last = (first, second)
        self.is_full = len(self) >= self._max_entries
        if len(self._waiting) >= GROUP_ENTRIES:
            self.write_out()

    def write_out(self) -> None:
        """Hand what waits to the file (not to the disk)."""
        if self._never_before is not None:
            self._never_before.write_out()
        if self._waiting:
            pack = self._layout.pack
            self._file.append([b"".join([pack(*entry) for entry in self._waiting])])
            self._written += len(self._waiting)
            self._waiting.clear()

    def floor(self, column: int, value: int) -> Entry | None:
        """The last entry whose column is not larger than `value`."""
        below = self._count_up_to(column, value)
        return self._at(below - 1) if below else None

    def keep_below(self, column: int, value: int) -> None:
        """Drop every entry whose column is `value` or more."""
        kept = self._count_up_to(column, value - 1)
        if kept >= self._written:
            del self._waiting[kept - self._written :]
        else:
            self._waiting.clear()
            self._file.truncate(kept * self._layout.size)
            self._written = kept
        self.last = self._at(kept - 1) if kept else None
        self.is_full = kept >= self._max_entries

    def clear(self) -> None:
        self._waiting.clear()
        self._file.truncate(0)
        self._written = 0
        self.last = None
        self.is_full = False

    def sync(self) -> None:
        """From any thread."""
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _at(self, position: int) -> Entry:
        return self._entry(position) if position < self._written else self._waiting[position - self._written]

    def _entry(self, position: int) -> Entry:
        raw = self._file.read(position * self._layout.size, self._layout.size)
        first, second = self._layout.unpack(raw)
        return first, second

    def _count_up_to(self, column: int, value: int) -> int:
        """How many entries, from the first on, have a column not larger than `value`."""
        if self._waiting and self._waiting[0][column] <= value:
            return self._written + bisect_right(self._waiting, value, key=lambda entry: entry[column])
        low, high = 0, self._written
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self._entry(middle)[column] <= value:
                low = middle
            else:
                high = middle
        size = self._layout.size
        block = [*self._layout.iter_unpack(self._file.read(low * size, (high - low) * size))]
        return low + bisect_right(block, value, key=lambda entry: int(entry[column]))
