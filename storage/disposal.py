"""Files that no longer belong to a log: renamed to `.deleted`, unlinked after file.delete.delay.ms.

The delay is for readers that still hold on; the rename makes the decision survive a kill. A file is not
unlinked while a flush may still be syncing it.
"""

from storage.files import Files
from storage.segments.segment import Segment
from storage.segments.segment_format import DELETED, SEGMENT_SUFFIXES, SNAPSHOT


class Disposal:
    """The files of one log that wait to be unlinked, oldest first."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._waiting: list[tuple[int, Segment]] = []
        self.borrowers = 0
        """How many, besides a flush, work on files of the log on another thread."""

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, segment: Segment, due_ms: int, *, with_snapshot: bool) -> None:
        """Rename everything that bears the segment's base offset, aborted index included. The producer snapshot stays
        where the offsets stay (compaction)."""
        for suffix in SEGMENT_SUFFIXES:
            if suffix == SNAPSHOT and not with_snapshot:
                continue
            path = segment.path + suffix
            if self._files.exists(path):
                self._files.rename(path, path + DELETED)
        self._waiting.append((due_ms, segment))

    def unlink_due(self, now_ms: int) -> None:
        """Free the space of what has waited long enough."""
        waiting = self._waiting
        self._waiting = [entry for entry in waiting if entry[0] > now_ms]
        for due_ms, segment in waiting:
            if due_ms <= now_ms:
                segment.close()
                for suffix in SEGMENT_SUFFIXES:
                    self._files.delete(segment.path + suffix + DELETED)

    def close(self) -> None:
        """Close what is open; the next start unlinks it."""
        for _, segment in self._waiting:
            segment.close()
        self._waiting.clear()
