"""Which transactions of a log were aborted, so that read_committed readers can leave their records out.

One entry per aborted transaction, in the segment that holds its marker: `<base offset>.txnindex`, Kafka's format,
made when the first entry comes; `aborted-checkpoint` says which have to be there.

    version i16 = 0 | producer id i64 | first offset i64 | last offset i64 (the marker) | last stable offset i64

The last stable offset is the one that held once the marker was written: every later entry begins at or after it. Last
offsets grow strictly. An entry too many does a reader no harm; one whose marker lies before the fetch offset would
make it drop committed records of the same producer, and a missing one shows it aborted records. So
checksums of what was written are kept in memory, and a reader is refused what is another now.
"""

import errno
import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple

from crc32c import crc32c

from storage.files import File, Files
from storage.log import BEYOND_ALL_OFFSETS
from storage.producers.aborted_checkpoint import AbortedCheckpoint
from storage.producers.checked_blocks import CheckedBlocks
from storage.producers.producer_changes import CompletedTransaction
from storage.steps import Blocking, Spent, Steps, finish, never

INDEX_SUFFIX = ".txnindex"
_ENTRY = struct.Struct(">hqqqq")
_LAST_OFFSET = struct.Struct(">q")
_LAST_OFFSET_AT = 18
_AT_ONCE = 256
"""Entries of a block: what is read at once, and compared with what was written."""
_BLOCK_BYTES = _AT_ONCE * _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def pack(self) -> bytes:
        return _ENTRY.pack(0, *self)


class WrittenIndex(NamedTuple):
    """What compaction has just written of one segment: the file, and what is in it."""

    file: File
    packed: list[bytes]


def entries_before(index: bytes, end_offset: int) -> list[bytes]:
    """The packed entries of an index file whose markers lie before an offset: the first ones, for markers only rise."""
    whole = len(index) - len(index) % _ENTRY.size
    packed = [index[at : at + _ENTRY.size] for at in range(0, whole, _ENTRY.size)]
    return [one for one in packed if _LAST_OFFSET.unpack_from(one, _LAST_OFFSET_AT)[0] < end_offset]


class AbortedIndex:
    """The aborted transactions of one log. Without `files`, everything is kept in memory."""

    def __init__(self, files: Files | None, folder: str, segment_bases: Iterable[int]) -> None:
        self._files = files
        self.folder = folder
        self._bases: list[int] = []
        self._sections: dict[int, _Section] = {}
        self._dirty: set[int] = set()
        self._unsaid: set[int] = set()
        """Of which segments the checkpoint may say something else."""
        self.last_offset = -1
        """The newest marker in the index: a reader beyond it needs no look-up."""
        self._checkpoint = None if files is None else AbortedCheckpoint(files, folder)
        self._load(segment_bases)

    def append(self, transaction: CompletedTransaction) -> None:
        """Take in an aborted transaction. Raises `OSError`; then the transaction must stay open for readers."""
        assert transaction.aborted and transaction.last_offset > self.last_offset
        base = self._base_of(transaction.last_offset)
        section = self._sections.get(base)
        if section is None:
            section = self._sections[base] = _Section(self._open(base))
        section.append(
            AbortedTransaction(
                transaction.producer_id,
                transaction.first_offset,
                transaction.last_offset,
                transaction.last_stable_offset,
            ).pack()
        )
        self._changed(base)
        self.last_offset = transaction.last_offset

    def collect(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap what was read from `fetch_offset` up to `upper_bound`. Raises
        `OSError`, also where an entry is not what was written."""
        return [] if fetch_offset > self.last_offset else finish(self.gather(fetch_offset, upper_bound, never))

    def gather(self, fetch_offset: int, upper_bound: int, spent: Spent) -> Steps[list[AbortedTransaction]]:
        """The same in steps, for a range of many segments. What is trimmed meanwhile may be missing."""
        found: list[AbortedTransaction] = []
        for base in self._bases[max(0, bisect_right(self._bases, fetch_offset) - 1) :]:
            section = self._sections.get(base)
            if section is None:
                continue
            index = section.first_ending_at(fetch_offset)
            while index < section.count and self._sections.get(base) is section:
                if section.collect(index, upper_bound, found):
                    return found
                index += _AT_ONCE - index % _AT_ONCE
                if spent():
                    yield None
        return found

    def entries(self, base: int) -> list[AbortedTransaction]:
        """All entries of one segment, for compaction and for people."""
        section = self._sections.get(base)
        return [] if section is None else section.entries(0, section.count)

    def segment_rolled(self, base: int) -> None:
        """Markers from `base` on belong to a new segment."""
        insort(self._bases, base)

    def is_what_was_written(self, end_offset: int, start_offset: int) -> bool:
        """After a start: whether every entry below `end_offset` is there as it was synced. Whatever lies behind may be
        anything; segments that end before `start_offset` have no readers, and may be missing from the checkpoint.
        Raises `OSError`."""
        assert self._checkpoint is not None, "what is in memory has no start"
        known = self._checkpoint.known
        if self._checkpoint.is_damaged:
            return False
        for base, following in zip(self._bases, [*self._bases[1:], BEYOND_ALL_OFFSETS], strict=True):
            section = self._sections.get(base)
            if known is None and following > start_offset and section is not None and (section.count or section.torn):
                return False  # Nobody has said that these are right.
            count, crc = (known or {}).get(base, (0, 0))
            if following <= start_offset or (section is None and count == 0):
                continue
            if section is None or section.count < count or section.checksum(count) != crc:
                return False
            if following <= end_offset and (section.count > count or section.torn):
                return False
        return True

    def clear(self) -> None:
        """Drop all entries: they are about to be made anew."""
        for base, section in self._sections.items():
            section.cut(0)
            self._changed(base)
        self.last_offset = -1

    def write_down(self, *, only_synced: bool = False) -> Blocking | None:
        """What says of the index as it is now that it is right, to be run on any thread when all of it is synced; with
        `only_synced`, at once: of what is not, it says what it said before. None where nothing has changed."""
        assert self._checkpoint is not None, "what is in memory is written nowhere"
        certain = self._unsaid - self._dirty if only_synced else self._unsaid
        said = dict[int, tuple[int, int]]()
        for base in certain:
            section = self._sections.get(base)
            try:
                said[base] = (0, 0) if section is None else (section.count, section.checksum())
            except OSError:
                continue  # It stays as it was said before; the next start makes what it cannot read anew.
        self._unsaid = self._unsaid.difference(said)
        return self._checkpoint.take(said)

    def truncate(self, end_offset: int) -> None:
        """Forget markers from `end_offset` on. What lies before that was synced; a power cut may have left anything
        behind it, so the entries of the segment in question are looked at one by one. It counts as unsynced even where
        nothing is cut: a process that was killed may have cut it and not come to sync."""
        held_by = self._base_of(end_offset)
        for base, following in zip(self._bases, [*self._bases[1:], BEYOND_ALL_OFFSETS], strict=True):
            section = self._sections.get(base)
            # A section that goes on behind its segment was cut before, and a power cut has taken that back.
            if section is not None and (base >= held_by or section.last_offset() >= following):
                section.truncate(min(end_offset, following))
                self._changed(base)
        self._find_last_offset()

    def trimmed(self, start_offset: int) -> None:
        """No reader begins before `start_offset`: segments that end there are forgotten. Their files go with their
        segments: a start that was not written down before a crash goes back, and its aborted records with it. Raises
        `OSError`."""
        ended = [base for base, end in zip(self._bases, self._bases[1:], strict=False) if end <= start_offset]
        for base in ended:
            section = self._sections.pop(base, None)
            if section is not None:
                if base in self._dirty:
                    section.sync()
                section.close()
        self._dirty.difference_update(ended)
        if self._checkpoint is not None:
            self._unsaid.update(ended)
        self._bases = self._bases[len(ended) :]

    def merged(self, bases: Sequence[int], index: WrittenIndex) -> None:
        """Compaction has put one segment in the place of these neighbours. It begins where the first of them began; its
        index file is on the disk, and known. The other segments stay as they are."""
        begin, end = bisect_left(self._bases, bases[0]), bisect_right(self._bases, bases[-1])
        if begin == end:
            index.file.close()
            return  # All of them end before the start: no reader asks for them.
        end_offset = self._bases[end] if end < len(self._bases) else BEYOND_ALL_OFFSETS
        for base in bases:
            if (section := self._sections.pop(base, None)) is not None:
                section.close()
        self._dirty.difference_update(bases)
        self._unsaid.update(bases)
        self._bases[begin:end] = bases[:1]
        if index.packed:
            self._sections[bases[0]] = _Section(index.file, index.packed)
        else:
            index.file.close()
        if bases[0] <= self.last_offset < end_offset:
            self.last_offset = self._last_offset_up_to(begin)

    def reload(self, segment_bases: Iterable[int]) -> None:
        """Truncation has left other segments, with their index files."""
        self.discard()
        self._sections.clear()
        self._load(segment_bases)
        self._dirty.intersection_update(self._sections)

    def sync(self) -> None:
        """What was appended is on the disk when this returns; the writer of the snapshot syncs the folder."""
        for base in sorted(self._dirty):
            self._sections[base].sync()
        self._dirty.clear()

    def take_unsynced(self) -> list[File]:
        """The files that hold what was appended, for another thread to sync; it counts as synced from now on. The
        caller closes them: what is cut off or deleted meanwhile closes those of the index only."""
        files = [file for base in sorted(self._dirty) if (file := self._open(base)) is not None]
        self._dirty.clear()
        return files

    def close(self) -> None:
        self.sync()
        self.discard()

    def discard(self) -> None:
        """Close the files as they are."""
        for section in self._sections.values():
            section.close()

    def _load(self, segment_bases: Iterable[int]) -> None:
        self._bases = sorted(segment_bases) or [0]
        names = set(self._files.list(self.folder)) if self._files is not None else set()
        for base in self._bases:
            if f"{base:020d}{INDEX_SUFFIX}" in names:
                self._sections[base] = _Section(self._open(base))
        if self._checkpoint is not None:
            self._unsaid.update(self._sections, self._checkpoint.latest)
        with suppress(OSError):  # Whoever opens a log looks at all of its index, and makes what it cannot read anew.
            self._find_last_offset()

    def _find_last_offset(self) -> None:
        self.last_offset = max((section.last_offset() for section in self._sections.values()), default=-1)

    def _last_offset_up_to(self, index: int) -> int:
        """The newest marker in the segment of this number and those before."""
        while index >= 0 and ((section := self._sections.get(self._bases[index])) is None or not section.count):
            index -= 1
        return self._sections[self._bases[index]].last_offset() if index >= 0 else -1

    def _changed(self, base: int) -> None:
        self._dirty.add(base)
        if self._checkpoint is not None:
            self._unsaid.add(base)

    def _open(self, base: int) -> File | None:
        if self._files is None:
            return None
        return self._files.open(f"{self.folder}/{base:020d}{INDEX_SUFFIX}", create=True)

    def _base_of(self, offset: int) -> int:
        return self._bases[max(0, bisect_right(self._bases, offset) - 1)]


class _Section:
    """The entries of one segment: in a file, or in memory where there is none."""

    def __init__(self, file: File | None, packed: Sequence[bytes] = ()) -> None:
        """`packed`: what was just written into the file, which is not read for that."""
        self._file = file
        self._memory = bytearray()
        self.count, rest = divmod(0 if file is None else file.size(), _ENTRY.size)
        self.torn = rest > 0
        """A crash, or damage, has left a part of an entry at the end."""
        self._checks = CheckedBlocks(_BLOCK_BYTES, is_empty=not self.count)
        self._last_offset: int | None = None if self.count else -1
        """That of the last entry, where it is known."""
        if packed:
            assert self.count == len(packed) and not self.torn
            self._checks.know(b"".join(packed))
            self._last_offset = _LAST_OFFSET.unpack_from(packed[-1], _LAST_OFFSET_AT)[0]

    def append(self, packed: bytes) -> None:
        if self.torn and self._file is not None:  # Damaged since the log was opened, or `truncate` would have cut it.
            self._file.truncate(self.count * _ENTRY.size)
            self.torn = False
        if self._file is None:
            self._memory += packed
        else:
            self._file.append([packed])
        self.count += 1
        self._last_offset = _LAST_OFFSET.unpack_from(packed, _LAST_OFFSET_AT)[0]
        self._checks.append(packed)

    def collect(self, index: int, upper_bound: int, found: list[AbortedTransaction]) -> bool:
        """Add what overlaps to `found`, of the rest of a block; True when no later one can."""
        for entry in self.entries(index, _AT_ONCE - index % _AT_ONCE):
            if entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return True
        return False

    def entries(self, index: int, count: int) -> list[AbortedTransaction]:
        return [AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(self._read(index, count))]

    def last_offset(self) -> int:
        if self._last_offset is None:
            self._last_offset = self._last_offset_at(self.count - 1)
        return self._last_offset

    def truncate(self, end_offset: int) -> None:
        kept, last_offset = 0, -1
        data = self._read(0, self.count)
        for fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields[1:])
            if not entry.first_offset < entry.last_offset < end_offset or entry.last_offset <= last_offset:
                break
            kept, last_offset = kept + 1, entry.last_offset
        if kept < self.count or self.torn:
            self.cut(kept)
        self._checks.know(data[: kept * _ENTRY.size])

    def cut(self, kept: int) -> None:
        """Only the first entries stay."""
        self.count, self.torn = kept, False
        self._checks = CheckedBlocks(_BLOCK_BYTES, is_empty=not kept)
        self._last_offset = None if kept else -1
        assert self._file is not None, "what is in memory begins anew"
        self._file.truncate(kept * _ENTRY.size)

    def checksum(self, count: int | None = None) -> int:
        """That of the bytes of all entries, or of the first ones."""
        if count is not None and count != self.count:
            return crc32c(self._read(0, count))
        known = self._checks.whole
        return self._checks.know(self._read(0, self.count)) if known is None else known

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def first_ending_at(self, offset: int) -> int:
        """The index of the first entry whose marker is at `offset` or later."""
        last_ones = range(_AT_ONCE - 1, self.count, _AT_ONCE)
        begin = bisect_left(last_ones, offset, key=self._last_offset_at) * _AT_ONCE
        return begin + bisect_left(self.entries(begin, _AT_ONCE), offset, key=attrgetter("last_offset"))

    def _last_offset_at(self, index: int) -> int:
        last_offset: int = _LAST_OFFSET.unpack_from(self._read(index, 1), _LAST_OFFSET_AT)[0]
        return last_offset

    def _read(self, index: int, count: int) -> bytes:
        """So many entries. Raises `OSError`, also where the blocks that they are in are not what was written."""
        begin, end = index // _AT_ONCE * _AT_ONCE, min(self.count, -(-(index + count) // _AT_ONCE) * _AT_ONCE)
        position, size = begin * _ENTRY.size, (end - begin) * _ENTRY.size
        memory, file = self._memory, self._file
        data = bytes(memory[position : position + size]) if file is None else file.read(position, size)
        if len(data) < size or not self._checks.are_in(data, position):
            raise OSError(errno.EIO, "entries are not what was written; the next start makes the index anew")
        inside = (index - begin) * _ENTRY.size
        return data[inside : inside + count * _ENTRY.size]
