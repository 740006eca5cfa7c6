"""What the index of aborted transactions was when it was last synced: `aborted-checkpoint`, ours, beside the log.

An index file that is gone, or is not what was written, hides nothing: readers would be shown aborted records. Kafka
makes these files when the first entry comes, so that a missing one may be right. This file says which are to be there.

    0                          version
    2                          how many lines follow
    0 17 2881237164            base offset of a segment, its entries, crc32c of their bytes
    4096 3 17442               the same of each other segment that has any

It is written before the snapshot of producers that vouches for the index, and may know more than that. Without it (a
data folder of an earlier version, or of Kafka) an index that has entries is made anew; where it is damaged or cannot be
read, one without entries, too: they may be what the damage took.
"""

from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

from storage.checkpoints import read_text
from storage.files import Files
from storage.steps import Blocking

ABORTED_CHECKPOINT = "aborted-checkpoint"
Sections = Mapping[int, tuple[int, int]]
"""(entries, crc32c) by base offset; only of segments that have entries."""


class AbortedCheckpoint:
    """That of one log."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{ABORTED_CHECKPOINT}"
        self._one_at_a_time = Lock()
        self._taken = self._written = 0
        self.known: Sections | None = None
        """What the file said when the log was opened; None where there was none, or it was damaged."""
        with suppress(OSError):
            self.known = parsed(read_text(files, self._path))
        self.is_damaged = self.known is None and files.exists(self._path)
        """So that it has to be written anew, whatever there is to be said."""
        self.latest: Sections = self.known or {}
        """What was taken last, to be written."""

    def take(self, changed: Sections) -> Blocking | None:
        """What is to be written down, for another thread, once these segments are synced; one without entries is left
        out from now on. None where nothing is new. Of several the last that was taken stays, in whatever order they are
        run."""
        sections = {**self.latest, **changed}
        for base, (count, _) in changed.items():
            if not count:
                del sections[base]
        if sections == self.latest and not self.is_damaged:
            return None
        self.latest, self.is_damaged = sections, False
        self._taken += 1
        number = self._taken

        def write() -> None:
            with self._one_at_a_time:
                if number > self._written:
                    self._files.write_whole(self._path, text_of(sections))
                    self._written = number

        return write


def text_of(sections: Sections) -> bytes:
    """What the file says of them."""
    lines = [f"{base} {count} {crc}" for base, (count, crc) in sorted(sections.items())]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def parsed(text: str | None) -> Sections | None:
    """What a file says; None where there is none, or it is damaged."""
    try:
        version, count, *lines = (text or "").splitlines()
        found = {int(base): (int(entries), int(crc)) for base, entries, crc in (line.split(" ") for line in lines)}
        return found if int(version) == 0 and int(count) == len(found) else None
    except ValueError:
        return None
