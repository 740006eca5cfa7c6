"""Opening a log: which files are segments, what of them may be believed, and where the log ends.

What is read depends on what happened before (`Recovery`):
- after a clean shutdown, or a kill on a machine that has not rebooted since, the page cache holds all that was written:
  only the tail behind the last index entry is checked, for a write that was cut short;
- otherwise everything behind the recovery point is read, checked and indexed anew; what lies before it was synced, its
  indexes included, and is believed;
- where a sync has failed, the same, and what was found is written once more before it is synced: its pages may pass for
  clean although the disk has never seen them.
Behind the recovery point the log ends before the first batch that is torn or corrupt, and segments behind that are
dropped: a write was cut short. Before it, and after a clean shutdown anywhere, nothing is ever cut away: what was on
the disk and is not any more is damage (`LogDamaged`); whether to go on without it is an operator's to say (`repair`).
What a repair cuts off is set aside (`.damaged`), and never deleted.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from protocol.records.batch import BatchHeader
from storage.checkpoints import replace_unsynced
from storage.epochs import EPOCHS_FILE, EpochCache, read_epochs
from storage.files import TEMPORARY, Files
from storage.log import BEYOND_ALL_OFFSETS, LogConfig, LogDamaged
from storage.segments.segment import Segment
from storage.segments.segment_format import (
    BATCH_EXTENT,
    CLEANED,
    DAMAGED,
    DELETED,
    INDEX,
    LENGTH_END,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    base_offset_of,
    file_name,
)

COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is known about the last run, for one partition."""

    recovery_point: int = 0
    """Everything below was on the disk, indexes and epochs included (Kafka's recovery-point-offset-checkpoint)."""
    clean: bool = False
    """The last run said goodbye (`.kafka_cleanshutdown`)."""
    same_boot: bool = False
    """The machine has not rebooted since."""
    log_start_offset: int = 0
    """Kafka's log-start-offset-checkpoint."""
    sync: bool = True
    """Sync what was found before serving it. Without (page-cache durability), it is durable after the first flush."""
    distrusted: bool = False
    """A sync has failed in the last run: what the page cache holds may not be on the disk, nor ever get there."""
    foreign: bool = False
    """Another program has written the log, and we have not yet checked it."""
    repair: bool = False
    """An operator wants the log without what is damaged: all of it is checked, and cut at the first damage."""

    @property
    def whole_before(self) -> int:
        """Everything below was on the disk: what is missing there was not cut short, it is damaged."""
        if self.repair:
            return 0
        return BEYOND_ALL_OFFSETS if self.clean and not self.distrusted else self.recovery_point

    @property
    def believed(self) -> bool:
        """The page cache holds all that was written, and only the tail is to be checked."""
        return (self.clean or self.same_boot) and not self.distrusted and not self.repair


@dataclass(slots=True)
class Loaded:
    """A log as it was found."""

    segments: list[Segment]
    epochs: EpochCache
    start_offset: int
    end_offset: int
    durable_offset: int
    unsynced: list[Segment]
    """Segments whose bytes or indexes may not be on the disk yet."""
    notes: list[str] = field(default_factory=list)
    """What was repaired, in sentences for the broker's log."""


def load(files: Files, folder: str, config: LogConfig, *, now_ms: Callable[[], int], recovery: Recovery) -> Loaded:
    """Open the log in `folder`, making it where it is missing. Raises `LogDamaged`."""
    files.make_folder(folder)
    given_up = _were_given_up(files, folder)
    names, notes = _tidy(files, folder, config, now_ms)
    bases = sorted(base for name in names if (base := base_offset_of(name)) is not None)
    segments = [Segment(files, folder, base, config, created_ms=now_ms()) for base in bases]
    if not segments:
        return _nothing_left(files, folder, config, now_ms, recovery, notes)
    known = read_epochs(files, folder)
    if known is not None and recovery.repair and not files.exists(f"{folder}/{EPOCHS_FILE}{DAMAGED}"):
        # Epochs that were handed out never come again, though the repair may cut off all that was written in them.
        files.write_whole(f"{folder}/{EPOCHS_FILE}{DAMAGED}", known.to_bytes())
    loaded = Loaded(segments, known or EpochCache(), bases[0], 0, 0, [], notes)
    saved = list(loaded.epochs.entries)
    _check_beginning(folder, saved[0][1] if saved and not given_up else bases[0], bases[0], recovery)
    unsure = 0 if recovery.repair else max(0, bisect_right(bases, recovery.recovery_point) - 1)
    first = len(segments) - 1 if recovery.believed else unsure
    if known is None:
        _read_all_epochs(loaded, first)
    # Our compaction leaves the last batch of a segment where it was: a gap between segments behind the recovery point
    # is a loss. A compacted log of Kafka's may have such gaps, and we may know of no recovery point.
    gaps_are_losses = recovery.recovery_point > 0 or not (recovery.foreign and config.cleanup_compact)
    _check(files, folder, loaded, first, recovery, gaps_are_losses)
    if not recovery.clean or recovery.distrusted or recovery.repair:
        if loaded.end_offset > recovery.recovery_point or notes:
            loaded.unsynced = loaded.segments[unsure:]
        if recovery.distrusted:
            for segment in loaded.unsynced:
                segment.write_again(recovery.recovery_point)
    loaded.durable_offset = min(loaded.end_offset, recovery.recovery_point) if loaded.unsynced else loaded.end_offset
    if recovery.log_start_offset > loaded.end_offset:
        # The disk has forgotten more than DeleteRecords had deleted: nothing of it may be read again.
        notes.append(f"{folder}: the log ended at {loaded.end_offset}, before its start {recovery.log_start_offset}")
        fresh = _fresh(files, folder, config, now_ms, recovery.log_start_offset, notes)
        for segment in loaded.segments:  # not before there is another: a folder without any would pass for a lost log
            _delete_segment(files, folder, segment)
        return fresh
    _find_beginning(files, folder, config, loaded, saved, recovery)
    return loaded


def _find_beginning(
    files: Files, folder: str, config: LogConfig, loaded: Loaded, saved: list[tuple[int, int]], recovery: Recovery
) -> None:
    """Where the log starts, and its epochs with it. `saved`: those, as they were found."""
    first_offset, epochs = loaded.segments[0].base_offset, loaded.epochs
    loaded.start_offset = max(first_offset, recovery.log_start_offset)
    began = saved[0][1] if saved else first_offset
    if began > loaded.start_offset and not (config.cleanup_compact or recovery.foreign):
        # Its epochs were cut when records were deleted: of that deletion the checkpoint knows nothing (any more).
        loaded.notes.append(f"{folder}: the log began at {began}; what was deleted before may be there again")
        epochs.entries.clear()
        _read_all_epochs(loaded, len(loaded.segments) - 1)
    epochs.truncate_start(loaded.start_offset)
    if saved and 0 < began == loaded.start_offset == loaded.end_offset:
        # All records were deleted, and their epoch is still the latest: it never goes back.
        epochs.assign(*saved[0])
    if epochs.entries != saved:
        # The next start may believe what it finds, and is neither to miss a beginning nor an epoch.
        replace_unsynced(files, f"{folder}/{EPOCHS_FILE}", epochs.to_bytes())


def _were_given_up(files: Files, folder: str) -> bool:
    """Whether there are segments that wait for deletion. A crash may have come before the epochs were cut with them:
    that is done now, while those files say so, or the next start would miss the beginning of the log."""
    names = files.list(folder)
    if not any(name.endswith(LOG + DELETED) for name in names):
        return False
    found = [base_offset_of(name, suffix) for name in names for suffix in (LOG, LOG + SWAP)]  # about to be one
    begins = min((base for base in found if base is not None), default=0)
    known = read_epochs(files, folder)
    if known is not None and known.entries[:1] and known.entries[0][1] < begins:
        known.truncate_start(begins)
        files.write_whole(f"{folder}/{EPOCHS_FILE}", known.to_bytes())
    return True


def _check_beginning(folder: str, known: int, found: int, recovery: Recovery) -> None:
    """Retention cuts the epochs with the segments, and a crash between the two leaves files that wait for deletion: a
    log that begins later than its epochs has lost its beginning. Raises `LogDamaged`."""
    if known < found and recovery.believed and not recovery.foreign:
        raise LogDamaged(f"{folder}/", None, known, f"the log began there, and what lies before {found} is missing")


def _nothing_left(
    files: Files, folder: str, config: LogConfig, now_ms: Callable[[], int], recovery: Recovery, notes: list[str]
) -> Loaded:
    """There is no segment: the log is new, or all of it is lost. Offsets that were handed out never come again."""
    if recovery.recovery_point > 0 and not recovery.repair:
        raise LogDamaged(f"{folder}/", 0, 0, f"nothing is left of what was on the disk below {recovery.recovery_point}")
    start_offset = max(recovery.log_start_offset, recovery.recovery_point)
    return _fresh(files, folder, config, now_ms, start_offset, notes)


def _fresh(
    files: Files, folder: str, config: LogConfig, now_ms: Callable[[], int], start_offset: int, notes: list[str]
) -> Loaded:
    """An empty log. Where there was another, the beginning of this one is on the disk when this returns, and the latest
    epoch of that one is still the latest."""
    segment = Segment(files, folder, start_offset, config, created_ms=now_ms())
    segment.open_indexes()
    epochs, known = EpochCache(), read_epochs(files, folder)
    if known is not None and epochs.assign(known.latest(), start_offset):
        files.write_whole(f"{folder}/{EPOCHS_FILE}", epochs.to_bytes())
    elif start_offset > 0:
        files.sync_folder(folder)
    return Loaded([segment], epochs, start_offset, start_offset, start_offset, [], notes)


def _read_all_epochs(loaded: Loaded, count: int) -> None:
    """The file is gone: read every header before the part that is checked anyway."""
    for segment in loaded.segments[:count]:
        for _, header, _ in segment.all_batches(0):
            loaded.epochs.assign(header.leader_epoch, header.base_offset)
    for _, header, _ in loaded.segments[count].batches(0):
        loaded.epochs.assign(header.leader_epoch, header.base_offset)


def _check(files: Files, folder: str, loaded: Loaded, first: int, recovery: Recovery, gaps_are_losses: bool) -> None:
    """Check segments from the `first` on; find the end of the log; drop what follows the first tear."""
    try:
        _check_each(files, folder, loaded, first, recovery, gaps_are_losses)
    except LogDamaged:
        for segment in loaded.segments:
            segment.close()
        raise


@dataclass(slots=True)
class _Followed:
    """How far the batches of a segment follow one another. No checksum covers the offset of a batch: one that jumps
    over what was on the disk may be an earlier one, damaged, and what is no batch behind it is no torn tail."""

    end_offset: int
    whole_before: int
    is_first: bool = True

    def add(self, header: BatchHeader, segment: Segment) -> None:
        led_there_by_index = self.is_first and segment.size_bytes > header.size
        self.is_first = False
        if led_there_by_index or not self.end_offset < self.whole_before <= header.base_offset:
            self.end_offset = header.next_offset

    def sure(self, segment: Segment) -> int:
        """Where the segment ends for certain. What is whole and goes back in offsets is no torn tail either."""
        for _, header, _ in segment.batches(segment.size_bytes, check=True):
            return min(self.end_offset, header.base_offset)
        return self.end_offset


def _check_each(
    files: Files, folder: str, loaded: Loaded, first: int, recovery: Recovery, gaps_are_losses: bool
) -> None:
    segments, epochs = loaded.segments, loaded.epochs
    from_offset = BEYOND_ALL_OFFSETS if recovery.believed else 0 if recovery.repair else recovery.recovery_point
    last: BatchHeader | None = None
    for index in range(first, len(segments)):
        segment = segments[index]
        if index > first and gaps_are_losses and loaded.end_offset < segment.base_offset:
            if loaded.end_offset < recovery.whole_before:
                raise segment.damaged(0, loaded.end_offset, "what lies before this segment is missing")
            _drop_from(files, folder, loaded, index, recovery)
            return
        found = segment.log.size()
        loaded.end_offset = segment.base_offset
        followed = _Followed(segment.base_offset, recovery.whole_before)
        last = None
        for header in segment.recover(from_offset):
            if last is None:
                epochs.truncate_end(header.base_offset)
            followed.add(header, segment)
            epochs.assign(header.leader_epoch, header.base_offset)
            loaded.end_offset, last = header.next_offset, header
        epochs.truncate_end(loaded.end_offset)
        if segment.size_bytes < found:
            if (end_offset := followed.sure(segment)) < recovery.whole_before:
                raise segment.damaged(segment.size_bytes, end_offset, "there is no whole batch")
            lost = found - segment.size_bytes
            if recovery.repair:
                _set_aside(files, segment, found)
            segment.cut()
            loaded.notes.append(f"{segment.path}{LOG}: cut {lost} bytes that are no whole batch at {loaded.end_offset}")
            _drop_from(files, folder, loaded, index + 1, recovery)
            return
        if index + 1 < len(segments):
            segment.finish()
    if last is not None and 0 <= last.leader_epoch != epochs.latest():
        loaded.notes.append(f"{folder}/{EPOCHS_FILE}: made anew, its last epoch is not that of the last batch")
        epochs.entries.clear()
        _read_all_epochs(loaded, len(segments) - 1)
    if loaded.end_offset < recovery.recovery_point and not recovery.repair:
        reason = f"the log ends there, and was on the disk up to offset {recovery.recovery_point}"
        raise segments[-1].damaged(segments[-1].size_bytes, loaded.end_offset, reason)


def _set_aside(files: Files, segment: Segment, size_bytes: int) -> None:
    """Keep a copy of what is about to be cut off: an operator may recover something from it."""
    target = files.open(f"{segment.path}{LOG}{DAMAGED}", create=True)
    try:
        target.truncate(0)
        position = segment.size_bytes
        while position < size_bytes and (block := segment.log.read(position, COPY_BYTES)):
            target.append([block])
            position += len(block)
        target.sync()
    finally:
        target.close()


def _drop_from(files: Files, folder: str, loaded: Loaded, first: int, recovery: Recovery) -> None:
    for later in reversed(loaded.segments[first:]):
        loaded.notes.append(f"{later.path}{LOG}: dropped, what lies before it was lost")
        if recovery.repair:
            files.rename(f"{later.path}{LOG}", f"{later.path}{LOG}{DAMAGED}")
        _delete_segment(files, folder, later)
    del loaded.segments[first:]


def _delete_segment(files: Files, folder: str, segment: Segment) -> None:
    segment.close()
    for suffix in SEGMENT_SUFFIXES:
        files.delete(f"{segment.path}{suffix}")
    files.sync_folder(folder)


def _tidy(files: Files, folder: str, config: LogConfig, now_ms: Callable[[], int]) -> tuple[Collection[str], list[str]]:
    """Finish what a crash interrupted: deletions, half-made compactions, replacements, indexes without a log, snapshots
    of producers. Returns the names that are left, and what was done."""
    notes: list[str] = []
    names = dict.fromkeys(files.list(folder))
    if any(name.endswith((DELETED, CLEANED, SWAP)) for name in names):
        for name in names:
            if name.endswith((DELETED, CLEANED)):
                files.delete(f"{folder}/{name}")
        for name in names:
            if (base := base_offset_of(name, LOG + SWAP)) is not None:
                notes.append(f"{folder}/{name}: a replacement by compaction was finished")
                _finish_swap(files, folder, base, config, now_ms)
        names = dict.fromkeys(files.list(folder))
    for name in list(names):
        if name.endswith(SWAP) or _is_half_a_snapshot(name) or _is_index_without_log(name, names):
            files.delete(f"{folder}/{name}")
            del names[name]
    return names, notes


def _is_half_a_snapshot(name: str) -> bool:
    """Being written when it was killed. Other files are written again under the same name; these never are."""
    return name.endswith(TEMPORARY) and name[:20].isdigit()


def _is_index_without_log(name: str, names: Collection[str]) -> bool:
    bases = [base for suffix in (INDEX, TIME_INDEX) if (base := base_offset_of(name, suffix)) is not None]
    return bool(bases) and file_name(bases[0], LOG) not in names


def _finish_swap(files: Files, folder: str, base: int, config: LogConfig, now_ms: Callable[[], int]) -> None:
    """A complete replacement stands ready: remove what it replaces and give it its name.

    It replaces every segment that begins within its offsets. Of one that began later nothing was kept, and it stays
    until the next compaction, which is harmless: its records are still right, only superfluous.
    """
    swap = f"{folder}/{file_name(base, LOG)}{SWAP}"
    log = f"{folder}/{file_name(base, LOG)}"
    end_offset = _end_of_file(files, swap, base)
    for name in files.list(folder):
        other = base_offset_of(name)
        if other is not None and base < other < end_offset:
            for suffix in SEGMENT_SUFFIXES[:-1]:
                files.delete(f"{folder}/{file_name(other, suffix)}")
    for suffix in (INDEX, TIME_INDEX):
        files.delete(f"{folder}/{file_name(base, suffix)}")
    aborted = f"{folder}/{file_name(base, TRANSACTION_INDEX)}"
    if files.exists(aborted + SWAP):
        files.rename(aborted + SWAP, aborted)
    files.rename(swap, log)
    files.sync_folder(folder)
    segment = Segment(files, folder, base, config, created_ms=now_ms())
    segment.open_indexes()
    segment.close()


def _end_of_file(files: Files, path: str, base: int) -> int:
    """The offset behind the last batch of a file of batches that is no segment yet."""
    file = files.open(path)
    try:
        position, end = 0, base
        while len(raw := file.read(position, BATCH_EXTENT.size)) == BATCH_EXTENT.size:
            base_offset, length, last_offset_delta = BATCH_EXTENT.unpack(raw)
            if length < 0:
                break
            position += LENGTH_END + length
            end = base_offset + last_offset_delta + 1
        return end
    finally:
        file.close()
