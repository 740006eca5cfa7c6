"""Where each leader epoch begins in a log (KIP-101), and Kafka's file for it, `leader-epoch-checkpoint`.

Epochs and their start offsets only grow. The cache follows from the batches' headers; the file saves
reading them again.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Final

from storage.files import Files
from storage.segments.segment_format import DAMAGED

EPOCHS_FILE: Final = "leader-epoch-checkpoint"


class EpochCache:
    """A sorted list of (epoch, start offset), as OffsetForLeaderEpoch needs it."""

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries = entries or []

    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def first(self) -> int:
        """The epoch of the first record there is."""
        return self.entries[0][0] if self.entries else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """A batch of this epoch starts here. True if that was news. Epoch -1 is none (KIP-101: unknown)."""
        if self.entries and epoch <= self.entries[-1][0]:
            return False
        if epoch < 0:
            return False
        # An epoch without batches has no extent: the later one takes its place.
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        return True

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Kafka's `LeaderEpochFileCache.endOffsetFor`."""
        if epoch < 0 or not self.entries or epoch > self.entries[-1][0]:
            return (-1, -1)
        if epoch == self.entries[-1][0]:
            return (epoch, log_end_offset)
        following = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if following == 0:
            # Older than all that is known: whatever it wrote ends where the first known one begins.
            return (epoch, self.entries[0][1])
        return (self.entries[following - 1][0], self.entries[following][1])

    def truncate_end(self, end_offset: int, *, log_start_offset: int = 0) -> bool:
        """Forget epochs that begin at or after `end_offset`; where nothing is left since the records before it were
        deleted, their epoch stays known."""
        limit = end_offset + (0 < end_offset == log_start_offset)
        kept = [entry for entry in self.entries if entry[1] < limit]
        changed = len(kept) != len(self.entries)
        self.entries = kept
        return changed

    def truncate_start(self, start_offset: int) -> bool:
        """Forget epochs that end before `start_offset`; the one that spans it now begins there."""
        following = bisect_right(self.entries, start_offset, key=lambda entry: entry[1])
        if following == 0 or (following == 1 and self.entries[0][1] == start_offset):
            return False
        self.entries = [(self.entries[following - 1][0], start_offset), *self.entries[following:]]
        return True

    def to_bytes(self) -> bytes:
        lines = ["0", str(len(self.entries)), *(f"{epoch} {offset}" for epoch, offset in self.entries)]
        return ("\n".join(lines) + "\n").encode()


def highest_epoch(files: Files) -> int:
    """The highest epoch that any log of the data folder has in its file; -1 where none has any."""
    paths = (f"{folder}/{name}" for folder in files.list("") for name in (EPOCHS_FILE, EPOCHS_FILE + DAMAGED))
    found = (_read(files, path) for path in paths)
    return max((epochs.latest() for epochs in found if epochs is not None), default=-1)


def read_epochs(files: Files, folder: str) -> EpochCache | None:
    """The cache as the file has it; None where the file is missing, torn or not ours to understand."""
    return _read(files, f"{folder}/{EPOCHS_FILE}")


def _read(files: Files, path: str) -> EpochCache | None:
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        text = file.read(0, file.size())
    finally:
        file.close()
    try:
        version, count, *lines = text.decode("ascii").splitlines()
        entries = [(int(epoch), int(offset)) for epoch, offset in (line.split(" ") for line in lines)]
        if int(version) != 0 or int(count) != len(entries) or not text.endswith(b"\n"):
            return None  # where a line is cut, a number may be another
    except ValueError:
        return None
    rising = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    return EpochCache(entries) if rising else None
