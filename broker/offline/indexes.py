"""The two sparse indexes of a segment, held against its batches: an entry that leads elsewhere would have readers miss
records. That entries are missing is no damage: an index is sparse, and is made longer by reading on."""

from itertools import pairwise
from struct import Struct

from broker.offline.findings import Findings
from protocol.records.batch import BatchHeader
from storage.segments.segment_format import OFFSET_ENTRY, TIME_ENTRY

Entry = tuple[int, int]


class CheckedIndex:
    """Of one segment; shown its batches in order."""

    layout: Struct

    def __init__(self, path: str, data: bytes, base_offset: int, findings: Findings) -> None:
        self.path = path
        self._base_offset = base_offset
        self._findings = findings
        self._next = 0
        size = self.layout.size
        self._whole = len(data) - len(data) % size
        self._torn = len(data) - self._whole
        self._entries: list[Entry] = [(first, second) for first, second in self.layout.iter_unpack(data[: self._whole])]
        while len(self._entries) > 1 and self._entries[-1] == (0, 0):  # room that Kafka takes before it needs it
            self._entries.pop()
        for number, (one, other) in enumerate(pairwise(self._entries), 1):
            if other[0] <= one[0] or other[1] <= one[1]:
                findings.damage(path, number * size, f"entry {other} does not follow {one}")

    def end(self, *, cut_short: bool) -> None:
        """Behind the last batch. `cut_short`: what a crash may have taken from the log, and not from its index."""
        say = self._findings.recovery if cut_short else self._findings.damage
        for entry in self._entries[self._next :]:
            say(self.path, self._next * self.layout.size, f"{self._named(*entry)}, behind the last batch")
            self._next += 1
        if self._torn:
            say(self.path, self._whole, f"there is a part of an entry: {self._whole + self._torn} bytes")

    def _named(self, first: int, second: int) -> str:
        raise NotImplementedError

    def _wrong(self, what: str) -> None:
        self._findings.damage(self.path, self._next * self.layout.size, what)


class CheckedOffsetIndex(CheckedIndex):
    """(relative last offset of a batch, where it begins)."""

    layout = OFFSET_ENTRY

    def batch(self, position: int, header: BatchHeader) -> None:
        while self._next < len(self._entries) and self._entries[self._next][1] <= position:
            relative, where = self._entries[self._next]
            offset = self._base_offset + relative
            if where < position:
                self._wrong(f"the entry of offset {offset} leads to byte {where}, where no batch begins")
            elif offset != header.last_offset:
                self._wrong(f"the entry of offset {offset} leads to the batch that ends with {header.last_offset}")
            self._next += 1

    def _named(self, first: int, second: int) -> str:
        return f"the entry of offset {self._base_offset + first} leads to byte {second}"


class CheckedTimeIndex(CheckedIndex):
    """(largest timestamp so far, relative offset of the batch that brought it)."""

    layout = TIME_ENTRY

    def batch(self, position: int, header: BatchHeader) -> None:
        while self._next < len(self._entries):
            timestamp_ms, relative = self._entries[self._next]
            offset = self._base_offset + relative
            if offset > header.last_offset:
                return
            if offset < header.base_offset:
                self._wrong(f"the entry of time {timestamp_ms} names offset {offset}, which no batch has")
            elif header.max_timestamp != timestamp_ms:
                latest = header.max_timestamp
                self._wrong(f"the entry of time {timestamp_ms} names offset {offset}, whose batch has {latest}")
            self._next += 1

    def _named(self, first: int, second: int) -> str:
        return f"the entry of time {first} names offset {self._base_offset + second}"
