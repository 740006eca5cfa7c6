"""The segment that compaction writes, from its first batch until it takes the place of those it was made from.

Rule. The log goes on with the files as they were written: nothing is opened or read again, so that nothing but a write
can fail once the segments it was made from are about to go.
"""

from protocol.records.batch import BatchHeader
from protocol.schema import Buffer
from storage.files import File, Files
from storage.log import LogConfig
from storage.producers.aborted import AbortedTransaction, WrittenIndex
from storage.segments.segment import Segment
from storage.segments.segment_format import (
    CLEANED,
    INDEX,
    LOG,
    OFFSET_ENTRY,
    SWAP,
    TIME_ENTRY,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
)
from storage.segments.sparse_index import SparseIndex

SUFFIXES = (INDEX, TIME_INDEX, TRANSACTION_INDEX, LOG)
"""The log is renamed last: it alone decides whether a replacement is complete."""


class CleanedSegment:
    """`add` batches, then `finish`, `sync`, `ready`, `sync_folder`, `take_over`, `install`, `take_index`; and `give_up`
    at the end, whatever came of it."""

    def __init__(self, files: Files, folder: str, base_offset: int, config: LogConfig) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self.changed = False
        """Whether anything differs from what was there before."""
        self.aborted: list[AbortedTransaction] = []
        self._files = files
        self._folder = folder
        self._config = config
        self._path = f"{folder}/{file_name(base_offset, '')}"
        self._stage = CLEANED
        self._open = {suffix: self._fresh(suffix) for suffix in SUFFIXES}
        limit = config.segment_index_bytes
        self._times = SparseIndex(self._open[TIME_INDEX], TIME_ENTRY, max_bytes=limit)
        self._offsets = SparseIndex(self._open[INDEX], OFFSET_ENTRY, max_bytes=limit, never_before=self._times)
        self._newest = (-1, 0)
        self._bytes_since_entry = 0
        self._parts: list[Buffer] = []

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Take a batch; `header` is that of `batch` as it is now. It waits in memory for `write_out`."""
        relative = header.last_offset - self.base_offset
        if header.max_timestamp > self._newest[0]:
            self._newest = (header.max_timestamp, relative)
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self._note_time()
            self._offsets.append(relative, self.size_bytes)
            self._bytes_since_entry = 0
        self._parts.append(batch)
        self.size_bytes += len(batch)
        self._bytes_since_entry += len(batch)

    def write_out(self) -> None:
        if self._parts:
            self._open[LOG].append(self._parts)
            self._parts = []

    def finish(self) -> None:
        """No more batches: hand everything to the files."""
        self.write_out()
        self._note_time()
        self._offsets.write_out()
        self._times.write_out()
        if self.aborted:
            entries = [transaction.pack() for transaction in self.aborted]
            self._open[TRANSACTION_INDEX].append([b"".join(entries)])

    def sync(self) -> None:
        """Off the loop."""
        for file in self._open.values():
            file.sync()

    def ready(self) -> None:
        """Complete: what a crash leaves from here on is finished at the next start."""
        for suffix in SUFFIXES:
            self._files.rename(self._path + suffix + CLEANED, self._path + suffix + SWAP)
        self._stage = SWAP

    def sync_folder(self) -> None:
        """Off the loop."""
        self._files.sync_folder(self._folder)

    def take_over(self) -> None:
        """The segments it was made from are about to go: whatever fails from here on, this may be the only copy, and
        the next start finishes what was begun."""
        self._stage = ""

    def install(self, now_ms: int) -> Segment:
        """Take the name of the segments that have just been moved away."""
        for suffix in SUFFIXES:
            self._files.rename(self._path + suffix + SWAP, self._path + suffix)
        log = self._open.pop(LOG)
        made = Segment(self._files, self._folder, self.base_offset, self._config, created_ms=now_ms, log=log)
        del self._open[INDEX], self._open[TIME_INDEX]
        made.indexed_by(self._offsets, self._times)
        return made

    def take_index(self) -> WrittenIndex:
        """Its index of aborted transactions; the caller closes the file."""
        return WrittenIndex(self._open.pop(TRANSACTION_INDEX), [transaction.pack() for transaction in self.aborted])

    def give_up(self, *, leave_files: bool = False) -> None:
        """Leave nothing behind, unless the segment has taken over, or its folder is no longer the log's."""
        self._close()
        if self._stage and not leave_files:
            for suffix in reversed(SUFFIXES):
                self._files.delete(self._path + suffix + self._stage)
        self._stage = ""

    def _note_time(self) -> None:
        timestamp_ms, relative = self._newest
        last = self._times.last
        if timestamp_ms >= 0 and (last is None or timestamp_ms > last[0]):
            self._times.append(timestamp_ms, relative)

    def _close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _fresh(self, suffix: str) -> File:
        file = self._files.open(self._path + suffix + CLEANED, create=True)
        file.truncate(0)
        return file
