"""One log, all of it: segments that follow one another, batches with their checksums, indexes, epochs, producers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from broker.offline.findings import Findings
from broker.offline.indexes import CheckedOffsetIndex, CheckedTimeIndex
from broker.offline.producer_files import CheckedAborted, CheckedSnapshots
from broker.offline.untouched import ReadFile, UntouchedFiles
from broker.offline.walk import Batch, Rest, batches_in, whole_batch_behind
from broker.partitions.derived import marker_of
from protocol.records.batch import BatchHeader, CorruptRecords
from protocol.records.record import records_of
from storage.epochs import EPOCHS_FILE, EpochCache, read_epochs
from storage.log import BEYOND_ALL_OFFSETS
from storage.producers.aborted import INDEX_SUFFIX
from storage.producers.aborted_checkpoint import ABORTED_CHECKPOINT, AbortedCheckpoint
from storage.producers.producer_state import ProducerState
from storage.segments.segment_format import DELETED, INDEX, LOG, TIME_INDEX, base_offset_of, file_name

_INDEXES = (INDEX, TIME_INDEX, INDEX_SUFFIX)
_NO_EPOCH = -1
"""Of batches that were written before leaders had epochs."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the data folder knows of a log."""

    folder: str
    recovery_point: int = 0
    start_offset: int = 0
    clean: bool = False
    """The last run ended in order."""
    same_boot: bool = False
    compacted: bool = False
    open_records: bool = False
    """Whether each record is to be read, too."""

    @property
    def whole_before(self) -> int:
        """Below, nothing may be missing or cut short."""
        return BEYOND_ALL_OFFSETS if self.clean else self.recovery_point


@dataclass(slots=True)
class LogCheck:
    """See the head of this file. `run`, then look at `state`."""

    files: UntouchedFiles
    known: Known
    findings: Findings
    on_batch: Callable[[BatchHeader, bytes], None] | None = None
    """Called with each batch that is whole, in order."""
    state: ProducerState = field(default_factory=ProducerState)
    epochs: EpochCache = field(default_factory=EpochCache)
    end_offset: int = 0
    _is_cut: bool = False
    """Behind here, the next start drops everything."""

    def run(self) -> None:
        names = self.files.list(self.known.folder)
        bases = sorted(base for name in names if (base := base_offset_of(name)) is not None)
        self.findings.logs += 1
        if not bases:
            if self.known.recovery_point > 0:
                what = f"nothing is left of what was on the disk below {self.known.recovery_point}"
                self.findings.damage(f"{self.known.folder}/", None, what)
            return
        self._check_beginning(names, bases[0])
        self.state, self.end_offset = ProducerState(bases[0]), bases[0]
        is_whole = bases[0] == 0 and self.known.start_offset == 0 and not self.known.compacted
        snapshots = CheckedSnapshots(self.files, self.known.folder, self.findings, is_whole=is_whole)
        believed_before = BEYOND_ALL_OFFSETS if self.known.clean else snapshots.newest
        sections = self._sections(names)
        for base, following in pairwise([*bases, None]):
            assert base is not None
            self._segment(base, following, snapshots, believed_before, None if sections is None else sections.get(base))
        snapshots.reached(self.state, self.end_offset)
        snapshots.end(self.end_offset, clean=self.known.clean)
        self._check_end(bases[-1])
        self._check_left_behind(names, bases)
        self._check_epochs(names, bases[0])

    def _sections(self, names: list[str]) -> dict[int, tuple[int, int]] | None:
        if ABORTED_CHECKPOINT not in names:
            return None
        known = AbortedCheckpoint(self.files, self.known.folder).known
        if known is None:
            self.findings.damage(f"{self.known.folder}/{ABORTED_CHECKPOINT}", None, "it is torn, or not understood")
        return None if known is None else dict(known)

    def _check_beginning(self, names: list[str], first: int) -> None:
        known = read_epochs(self.files, self.known.folder)
        began = known.entries[0][1] if known is not None and known.entries else first
        if began < first and not any(name.endswith(LOG + DELETED) for name in names):
            what = f"the log began at {began}, and what lies before {first} is missing"
            self.findings.damage(f"{self.known.folder}/", None, what)

    # -------------------------------------------------------------------------------------------------------- segments

    def _segment(
        self,
        base: int,
        following: int | None,
        snapshots: CheckedSnapshots,
        believed_before: int,
        section: tuple[int, int] | None,
    ) -> None:
        path = f"{self.known.folder}/{file_name(base, LOG)}"
        if base != self.end_offset and not self._is_cut:
            gap = f"offsets {self.end_offset} to {base - 1} are missing before this segment"
            overlap = f"it begins at {base}, and the one before ends at {self.end_offset}"
            self.findings.damage(path, 0, gap if base > self.end_offset else overlap)
        self.end_offset = max(base, self.end_offset) if not self._is_cut else self.end_offset
        aborted = CheckedAborted(self.files, self.known.folder, base, self.findings)
        indexes = self._indexes(base)
        file = self.files.open(path)
        try:
            size = file.size()
            self.findings.segments += 1
            self.findings.size_bytes += size
            self._batches(path, file, size, following, snapshots, aborted, indexes)
        finally:
            file.close()
        may_be_cut = not self.known.clean and self.end_offset >= self.known.recovery_point
        for index in indexes:
            index.end(cut_short=may_be_cut)
        aborted.end(
            compacted=self.known.compacted,
            believed_before=believed_before,
            checkpoint=section,
            clean=self.known.clean,
        )

    def _indexes(self, base: int) -> list[CheckedOffsetIndex | CheckedTimeIndex]:
        found: list[CheckedOffsetIndex | CheckedTimeIndex] = []
        for kind, suffix in ((CheckedOffsetIndex, INDEX), (CheckedTimeIndex, TIME_INDEX)):
            path = f"{self.known.folder}/{file_name(base, suffix)}"
            if self.files.exists(path):
                found.append(kind(path, self.files.contents(path), base, self.findings))
            else:
                self.findings.recovery(path, None, "it is missing, and made anew when the log is opened")
        return found

    def _batches(
        self,
        path: str,
        file: ReadFile,
        size: int,
        following: int | None,
        snapshots: CheckedSnapshots,
        aborted: CheckedAborted,
        indexes: list[CheckedOffsetIndex | CheckedTimeIndex],
    ) -> None:
        for found in batches_in(file, size):
            if isinstance(found, Rest):
                self._torn(path, file, found, following)
                break
            for index in indexes:
                index.batch(found.position, found.header)
            self._batch(path, found, following, snapshots, aborted)

    def _batch(
        self, path: str, found: Batch, following: int | None, snapshots: CheckedSnapshots, aborted: CheckedAborted
    ) -> None:
        header = found.header
        self.findings.batches += 1
        if not found.crc_is_right:
            self._wrong_checksum(path, found)
        elif header.base_offset < self.end_offset:
            what = f"it begins with offset {header.base_offset}, where {self.end_offset} is the least that can come"
            self.findings.damage(path, found.position, what)
            return
        elif header.base_offset > self.end_offset and not self.known.compacted and not self._is_cut:
            what = f"offsets {self.end_offset} to {header.base_offset - 1} are missing before this batch"
            self.findings.damage(path, found.position, what)
        elif following is not None and header.last_offset >= following:
            what = f"it ends with offset {header.last_offset}, and the next segment begins at {following}"
            self.findings.damage(path, found.position, what)
        if header.leader_epoch < _NO_EPOCH:
            self.findings.damage(path, found.position, f"there is no leader epoch {header.leader_epoch}")
        snapshots.reached(self.state, header.base_offset)
        self.epochs.assign(header.leader_epoch, header.base_offset)
        self.end_offset = header.next_offset
        if found.crc_is_right:
            self._say(path, found, aborted)

    def _say(self, path: str, found: Batch, aborted: CheckedAborted) -> None:
        """What a sound batch means to producers, and to who else wants to know."""
        header, data = found.header, found.data
        try:
            marker = marker_of(header, data)
            if self.known.open_records and not header.is_control:
                self._open(header, data)
        except CorruptRecords as problem:
            self.findings.damage(path, found.position, f"its checksum is right, and it cannot be read: {problem}")
            return
        completed = self.state.replay(header, marker, 0)
        if marker is not None and not marker.commit:
            aborted.marker(header.producer_id, header.base_offset, completed)
        if self.on_batch is not None:
            self.on_batch(header, data)

    def _open(self, header: BatchHeader, data: bytes) -> None:
        last = header.base_offset - 1
        for record in records_of(data):
            if not last < record.offset <= header.last_offset:
                raise CorruptRecords(f"offset {record.offset} behind {last}")
            last = record.offset

    # ------------------------------------------------------------------------------------------------------------ ends

    def _torn(self, path: str, file: ReadFile, rest: Rest, following: int | None) -> None:
        what = f"{rest.why}: {rest.size_bytes} bytes behind offset {self.end_offset}"
        if self.end_offset < self.known.whole_before:
            self.findings.damage(path, rest.position, what)
            return
        self._is_cut = following is not None
        what += ", which the next start cuts off"
        # A process that dies leaves nothing torn but what it wrote last; only a power cut may leave holes.
        behind = whole_batch_behind(file, rest, self.end_offset) if self.known.same_boot else None
        if behind is None:
            self.findings.recovery(path, rest.position, what)
        else:
            self.findings.damage(path, rest.position, f"{what}, with the whole batch at byte {behind}")

    def _wrong_checksum(self, path: str, found: Batch) -> None:
        header = found.header
        what = f"the checksum of the batch of offsets {header.base_offset} to {header.last_offset} is wrong"
        if header.base_offset < self.known.whole_before or self.known.same_boot:
            self.findings.damage(path, found.position, what)
        else:
            what += ": if the power was cut, it had not been synced, and the next start cuts the log here"
            self.findings.recovery(path, found.position, what)

    def _check_end(self, last_base: int) -> None:
        path = f"{self.known.folder}/{file_name(last_base, LOG)}"
        if self.end_offset < self.known.recovery_point:
            what = f"the log ends at {self.end_offset}, and was on the disk up to {self.known.recovery_point}"
            self.findings.damage(path, None, what)
        elif self.known.clean and 0 < self.known.recovery_point < self.end_offset:
            # Where a batch stands in the log is no part of what its checksum is of.
            what = f"the log ends at {self.end_offset}, and ended at {self.known.recovery_point} when it was closed"
            self.findings.damage(path, None, what)
        if self.known.start_offset > self.end_offset:
            what = f"the log ends at {self.end_offset}, before its start {self.known.start_offset}"
            self.findings.recovery(path, None, what)

    def _check_left_behind(self, names: list[str], bases: list[int]) -> None:
        """Indexes of segments that are gone, and were not deleted."""
        for name in names:
            base = next((one for suffix in _INDEXES if (one := base_offset_of(name, suffix)) is not None), None)
            if base is None or base in bases or f"{file_name(base, LOG)}{DELETED}" in names:
                continue
            if self.known.start_offset <= base < self.end_offset:
                path = f"{self.known.folder}/{name}"
                self.findings.damage(path, None, "the segment that it is an index of is missing")

    def _check_epochs(self, names: list[str], first: int) -> None:
        path = f"{self.known.folder}/{EPOCHS_FILE}"
        if EPOCHS_FILE not in names:
            if self.epochs.entries:
                self.findings.recovery(path, None, "it is missing, and made anew when the log is opened")
            return
        known = read_epochs(self.files, self.known.folder)
        if known is None:
            self.findings.damage(path, None, "it is torn, or not understood")
            return
        start = max(first, self.known.start_offset)
        said: list[tuple[int, int]] = []
        has: list[tuple[int, int]] = []
        for cache, found in ((known, said), (self.epochs, has)):
            cache.truncate_start(start)
            found += [entry for entry in cache.entries if entry[1] < self.end_offset]
        if self.known.compacted:  # the first batches of an epoch may be gone
            said, has = [(epoch, 0) for epoch, _ in said[-1:]], [(epoch, 0) for epoch, _ in has[-1:]]
        if said == has:
            return
        what = f"(epoch, start offset) are {said}, and those of the batches {has}"
        if not self.known.clean and said == has[: len(said)] and len(has) - len(said) == 1:
            self.findings.recovery(path, None, what)
        else:
            self.findings.damage(path, None, what)
