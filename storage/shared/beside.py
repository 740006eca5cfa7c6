"""What is written down beside a log in a shared store, file by file: producers, aborted transactions, epochs, parts,
and how far it was compacted. All of it is committed with the log, as of one moment.
"""

from collections.abc import Sequence

from storage.epochs import EPOCHS_FILE, EpochCache, read_epochs
from storage.producers.aborted import INDEX_SUFFIX, AbortedIndex, WrittenIndex
from storage.producers.producer_snapshot import SnapshotFiles
from storage.segments.segment_format import file_name
from storage.shared.kept_files import KeptFiles
from storage.shared.parts import PARTS_FILE, Part, from_bytes, to_bytes

FOLDER = "log"
"""Of the files: each log has its own."""


class Beside:
    """That of one log. Raises `ValueError` where the parts are not what was written."""

    def __init__(self, kept: KeptFiles, first_offset: int, now_ms: int) -> None:
        """The log begins at `first_offset`."""
        self.kept = kept
        self.parts, self.covered = [Part(first_offset, begun_ms=now_ms)], first_offset
        """What is known of the log, and up to where."""
        if kept.exists(f"{FOLDER}/{PARTS_FILE}"):
            self.parts, self.covered = from_bytes(self._content(PARTS_FILE))
        if self.parts[0].base_offset != first_offset:
            raise ValueError("bounds and what is beside the log are not of one commit")
        newest = max(self.snapshots().offsets(), default=first_offset)
        self.needed_from = max(first_offset, min(self.covered, newest))
        """From where on a start has to look at the log. A snapshot of producers may be older: one was being written."""

    def epochs(self) -> EpochCache:
        """Where each began, as far as it was written down."""
        return read_epochs(self.kept, FOLDER) or EpochCache()

    def snapshots(self) -> SnapshotFiles:
        """Of producers."""
        return SnapshotFiles(self.kept, FOLDER)

    def aborted_index(self) -> AbortedIndex:
        """Of transactions, by parts."""
        return AbortedIndex(self.kept, FOLDER, [part.base_offset for part in self.parts])

    def keep_index(self, bases: Sequence[int], index: WrittenIndex) -> WrittenIndex:
        """The index of one part, in the place of those of some."""
        self.drop_indexes(bases)
        path = f"{FOLDER}/{file_name(bases[0], INDEX_SUFFIX)}"
        self.kept.write_whole(path, *index.packed)
        return WrittenIndex(self.kept.open(path), index.packed)

    def drop_indexes(self, bases: Sequence[int]) -> None:
        """Those of some parts."""
        for base in bases:
            self.kept.delete(f"{FOLDER}/{file_name(base, INDEX_SUFFIX)}")

    def number(self, name: str) -> int:
        """One that was written down; 0 where there is none."""
        return int(self._content(name).split()[1]) if self.kept.exists(f"{FOLDER}/{name}") else 0

    def write_number(self, name: str, number: int) -> None:
        """As Kafka writes down an offset."""
        self.kept.write_whole(f"{FOLDER}/{name}", f"0\n{number}\n".encode())

    def to_bytes(self, end_offset: int, epochs: EpochCache) -> bytes:
        """All of it, for a log that ends there."""
        self.kept.write_whole(f"{FOLDER}/{PARTS_FILE}", to_bytes(self.parts, end_offset))
        self.kept.write_whole(f"{FOLDER}/{EPOCHS_FILE}", epochs.to_bytes())
        return self.kept.to_bytes()

    def _content(self, name: str) -> bytes:
        file = self.kept.open(f"{FOLDER}/{name}")
        return file.read(0, file.size())
