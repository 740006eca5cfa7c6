"""Files that no longer belong to a log: renamed to `.deleted`, unlinked after file.delete.delay.ms.

The delay is for readers that still hold on; the rename makes the decision survive a kill. A file is not
unlinked while a flush may still be syncing it.
"""

from bisect import insort
from operator import itemgetter

from storage.files import Files
from storage.segments.segment import Segment
from storage.segments.segment_format import DELETED, SEGMENT_SUFFIXES, SNAPSHOT
from storage.steps import Blocking, Steps


class Disposal:
    """The files of one log that wait to be unlinked, those due first in front: the delay may be shortened, and the
    clock be set back."""

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
        insort(self._waiting, (due_ms, segment), key=itemgetter(0))

    def is_due(self, now_ms: int) -> bool:
        """Whether anything has waited long enough."""
        return bool(self._waiting) and self._waiting[0][0] <= now_ms

    def take_due(self, now_ms: int, at_most: int) -> Blocking:
        """What frees the space of segments that have waited long enough, on any thread."""
        paths: list[str] = []
        while at_most and self.is_due(now_ms):
            segment = self._waiting.pop(0)[1]
            segment.close()
            paths += [segment.path + suffix + DELETED for suffix in SEGMENT_SUFFIXES]
            at_most -= 1

        def unlink() -> None:
            for path in paths:
                self._files.delete(path)

        return unlink

    def off_the_loop(self, work: Blocking) -> Steps[None]:
        """Whatever happens to the log meanwhile, its files stay where they are."""
        self.borrowers += 1
        try:
            yield work
        finally:
            self.borrowers -= 1

    def close(self) -> None:
        """Close what is open; the next start unlinks it."""
        for _, segment in self._waiting:
            segment.close()
        self._waiting.clear()
