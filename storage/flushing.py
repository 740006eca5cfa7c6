"""The part of a log that is not on the disk yet, and one flush that puts it there.

`Unsynced` belongs to the loop's thread. A `SegmentFlush` carries all it needs, so that `run` may happen on another
thread while the log goes on: it syncs files, and touches nothing else.
"""

from collections.abc import Callable, Sequence

from storage.checkpoints import open_partition_metadata, replace_unsynced
from storage.epochs import EPOCHS_FILE, EpochCache
from storage.files import File, Files
from storage.log import LogDamaged, LogObserver
from storage.segments.segment import Segment
from storage.segments.sparse_index import SparseIndex


class SegmentFlush:
    """One flush under way; see `storage.log.Flush`."""

    __slots__ = (
        "_beside",
        "_files",
        "_folders",
        "_indexes",
        "_logs",
        "_observers",
        "_state",
        "abandoned",
        "end_offset",
        "failed",
        "is_checkpoint",
        "on_failed",
        "shares_commits",
    )

    def __init__(
        self,
        files: Files,
        end_offset: int,
        *,
        logs: Sequence[File],
        folders: Sequence[str],
        indexes: Sequence[SparseIndex],
        beside: Sequence[File],
        is_checkpoint: bool,
    ) -> None:
        self._files = files
        self._logs = logs
        self._folders = folders
        self._indexes = indexes
        self._beside = beside
        self._observers: Sequence[LogObserver] = ()
        self._state: list[Callable[[], None]] = []
        self.end_offset = end_offset
        self.is_checkpoint = is_checkpoint
        self.shares_commits = not (is_checkpoint or folders or beside) and all(log.shares_commits for log in logs)
        self.failed = False
        self.on_failed: Callable[[], object] | None = None
        """Called where it fails, on whatever thread that is, before anybody else learns of it."""
        self.abandoned = False
        """The log is being deleted meanwhile: what can no longer be found need not be on the disk."""

    def begins(
        self, observers: Sequence[LogObserver], on_failed: Callable[[], object] | None, *, closing: bool
    ) -> None:
        """On the loop's thread: what follows from the bytes is written down before the recovery point moves."""
        self.on_failed = on_failed
        if self.is_checkpoint:
            self._observers = observers
            state = [observer.checkpoint_begins(closing=closing) for observer in observers]
            self._state = [work for work in state if work is not None]

    def finished(self) -> None:
        """On the loop's thread."""
        for file in self._beside:
            file.close()
        for observer in self._observers:
            observer.checkpoint_ended()

    def run(self) -> None:
        try:
            for log in self._logs:
                if self.is_checkpoint:
                    log.sync()
                else:
                    log.commit()
            for index in self._indexes:
                index.sync()
            for file in self._beside:
                file.sync()
            for folder in self._folders:
                self._files.sync_folder(folder)
            for write_down in self._state:
                write_down()
        except OSError:
            if not self.abandoned:
                self.failed = True
                if self.on_failed is not None:
                    self.on_failed()
                raise


class Unsynced:
    """Segments, indexes, epochs and folder entries that a power cut might take away."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = dict.fromkeys(segments)
        self._indexes = dict.fromkeys(segments)
        self._folders: list[str] = []
        self._owner = False
        self.epochs = bool(segments)
        self.checkpoint = bool(segments)
        """The next flush syncs indexes and epochs as well and moves the recovery point."""

    def __bool__(self) -> bool:
        return bool(self._segments)

    @property
    def shares_commits(self) -> bool:
        """See `storage.log.Log`."""
        if self.checkpoint or self._folders or self._owner:
            return False
        return all(segment.log.shares_commits for segment in self._segments)

    def want_checkpoint(self, active: Segment, *, behind: bool) -> None:
        """The log is about to be closed. One that is empty, or was only read, has nothing to be synced: the names of
        its files may get lost. `behind`: the recovery point is not at the end yet."""
        if behind or self._segments or self._indexes or self.epochs or self.checkpoint:
            self.checkpoint = True
            self.wrote(active)

    def wrote(self, segment: Segment) -> None:
        self._segments[segment] = None

    def rolled(self, segment: Segment, folder: str) -> None:
        """`segment` is final, and a new one stands beside it."""
        self._segments[segment] = self._indexes[segment] = None
        self.touched(folder)
        self.checkpoint = True

    def touched(self, folder: str) -> None:
        """Something was created, renamed or deleted in there."""
        if folder not in self._folders:
            self._folders.append(folder)

    def begun(self, folder: str) -> None:
        """The folder of the log, its files and whose it is may not be on the disk: all that is, with its first records.
        After a power cut they are not taken for those of another topic with its name."""
        self.touched(folder.rpartition("/")[0])
        self.touched(folder)
        self._owner = True

    def indexed(self, segment: Segment) -> None:
        self._indexes[segment] = None

    def forget(self, segment: Segment) -> None:
        self._segments.pop(segment, None)
        self._indexes.pop(segment, None)

    def take(self, files: Files, folder: str, end_offset: int, active: Segment, epochs: EpochCache) -> SegmentFlush:
        """Everything that is unsynced now, as one flush. Nothing is unsynced afterwards."""
        indexes: list[SparseIndex] = []
        beside: list[File] = []
        is_checkpoint = self.checkpoint
        if is_checkpoint:
            active.write_out_indexes()
            self._indexes[active] = None
            indexes = self._take_indexes()
            if self.epochs:
                # Written here, and on the other thread only synced: there it could take the place of later ones.
                replace_unsynced(files, f"{folder}/{EPOCHS_FILE}", epochs.to_bytes())
                beside.append(files.open(f"{folder}/{EPOCHS_FILE}"))
                self.touched(folder)
            self.epochs = self.checkpoint = False
        if self._owner and (owner := open_partition_metadata(files, folder)) is not None:
            beside.append(owner)
        flush = SegmentFlush(
            files,
            end_offset,
            logs=[segment.log for segment in self._segments],
            folders=self._folders,
            indexes=indexes,
            beside=beside,
            is_checkpoint=is_checkpoint,
        )
        self._segments, self._folders, self._owner = {}, [], False
        return flush

    def _take_indexes(self) -> list[SparseIndex]:
        """Those that can be opened. After a crash it is for the first time: one that cannot be waits for the next
        checkpoint. The bytes of its log are on the disk, from which it is made anew wherever it is not right."""
        indexes: list[SparseIndex] = []
        left: dict[Segment, None] = {}
        for segment in self._indexes:
            try:
                indexes += segment.indexes()
            except LogDamaged:
                left[segment] = None
        self._indexes = left
        return indexes
