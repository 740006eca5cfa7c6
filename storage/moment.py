"""What the files of a log held at one moment, told by a few numbers; and which files were there then.

A log's files only grow, or are replaced whole under the same name. So whoever holds on to the files (by links to them)
has the log of a moment, once those that were still written to are cut to the lengths that they had. That is what
`kill -9` at that moment would have left, less what a start would throw away.
"""

from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from storage.checkpoints import BEING_REPLACED
from storage.cleaner.compactor import CHECKPOINT
from storage.files import TEMPORARY
from storage.log import Log
from storage.producers.aborted import entries_before
from storage.producers.aborted_checkpoint import parsed, text_of
from storage.segment_log import SegmentLog
from storage.segments.segment_format import CLEANED, DELETED, INDEX, LOG, SWAP, TIME_INDEX, TRANSACTION_INDEX

SEGMENT_FILES = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
_NEVER = (DELETED, CLEANED, SWAP, TEMPORARY, BEING_REPLACED)
"""What a start finishes or throws away: all that it was made from is there beside it."""


class Moment(NamedTuple):
    """That of one log."""

    start_offset: int
    recovery_point: int
    end_offset: int
    active_base: int
    """Where the segment begins that was written to."""
    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    """Of that segment's files."""

    def lengths(self) -> dict[str, int]:
        """By the suffix of the file."""
        return {LOG: self.log_bytes, INDEX: self.index_bytes, TIME_INDEX: self.time_index_bytes}


def moment_of(log: SegmentLog) -> Moment:
    """What its files hold now."""
    active = log.active
    return Moment(log.start_offset, log.recovery_point, log.end_offset, active.base_offset, *active.file_bytes())


class Noted:
    """The moment of a log, noted before it is needed: nearly always it still is the one then."""

    __slots__ = ("active", "bytes_written", "log", "moment", "name", "start_offset")

    def __init__(self, name: str, log: SegmentLog) -> None:
        self.name = name
        self.log = log
        self.note()

    def note(self) -> Moment:
        """Of now."""
        log = self.log
        self.active, self.bytes_written, self.start_offset = log.active, log.bytes_written, log.start_offset
        found = self.moment = moment_of(log)
        return found


def noted(name: str, log: Log) -> Noted | None:
    """A log that has files, on the thread that writes to it."""
    return Noted(name, log) if isinstance(log, SegmentLog) else None


def outdated(noted: Iterable[Noted]) -> list[Noted]:
    """Those whose logs are others by now. A quarter of a microsecond for each: nothing else is fit for ten thousand in
    one turn of the loop. What a checkpoint moves (recovery point, indexes) may stay as it was noted."""
    return [
        one
        for one in noted
        if one.bytes_written != (log := one.log).bytes_written
        or one.start_offset != log.start_offset
        or one.active is not log.segments[-1]
    ]


def number_of(name: str) -> int | None:
    """The offset that a file's name begins with."""
    digits = name[:20]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def belongs(name: str, moment: Moment | None) -> bool:
    """Whether a file of a log's folder is of that moment, and not of later. `None`: nobody writes to this folder.

    Without the checkpoint of compaction the next pass reads more; one that was written later would have it read less
    than it must.
    """
    if name.endswith(_NEVER) or name == CHECKPOINT:
        return False
    number = number_of(name)
    if moment is None or number is None:
        return True
    of_segment = name[20:].startswith(SEGMENT_FILES)
    return number <= (moment.active_base if of_segment else moment.end_offset)


def cut_aborted(checkpoint: bytes | None, index: bytes, moment: Moment) -> tuple[bytes | None, bytes]:
    """(`aborted-checkpoint`, the active segment's index of aborted transactions) as they were then: markers that came
    later are left out."""
    entries = entries_before(index, moment.end_offset)
    kept = b"".join(entries)
    known = parsed(None if checkpoint is None else checkpoint.decode("ascii", "replace"))
    if known is None:
        return None, kept
    sections = {base: said for base, said in known.items() if base <= moment.active_base}
    count = len(entries)
    if sections.get(moment.active_base, (0, 0))[0] > count:
        del sections[moment.active_base]
        if count:
            sections[moment.active_base] = (count, crc32c(kept))
    return text_of(sections), kept
