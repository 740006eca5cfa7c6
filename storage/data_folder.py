"""The data folder as a whole: its format version, how its last use ended, and what each log may believe on opening.

Rules for upgrades. `tallystick.format` carries one number for everything in the folder. A folder with a newer number is
refused; an older one is brought up step by step (`UPGRADES`), the number being written after each step, so that an
upgrade that was cut short goes on where it stopped. A folder without the file is new, or Kafka's own, whose formats
ours are.

Rules for trust. After a kill the page cache is believed, if the machine has not rebooted since. Two things forbid that:
- Not every log was opened since the last reboot. So the boot is written down only when all were (`recovered`).
- A sync has failed. The kernel then takes the pages for clean although they are not on the disk, and a later sync of
  the same file succeeds: what a restart reads may be gone after a power cut. So a failing process says so in a file
  that was there before (`distrust`): in place, for a full disk takes no new file, and without a sync, for the word is
  needed only as long as the page cache lives. It is said on the thread whose sync has failed, before anybody else
  learns of it: a kill must not come in between. What was not checkpointed is then checked, written again, and synced.
"""

import json
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from protocol.internal_topics import CLUSTER_METADATA
from storage.checkpoints import (
    COPY_FILE,
    FORMAT_FILE,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TRUST_FILE,
    TopicPartition,
    UnreadableDataFolder,
    read_offsets,
    read_text,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from storage.files import Files
from storage.recovery import Recovery
from storage.segments.segment_format import DAMAGED
from storage.write_ahead.replay import AHEAD_FILE, replay

FORMAT_VERSION = 1
KRAFT_LOG = f"{CLUSTER_METADATA}-0"
UPGRADES: Mapping[int, Callable[[Files], None]] = {}
"""From a version to the next one."""
NO_FORMAT = (
    f"{FORMAT_FILE} {{what}}: it says which version wrote the data folder. Nothing was changed. Put back a copy of it; "
    f"or, if it was this version, have it made anew in the data folder: "
    f"""echo '{{{{"version": {FORMAT_VERSION}, "boot_id": ""}}}}' > {FORMAT_FILE}"""
)
TRUSTED, DISTRUSTED = "page cache: trusted\n", "page cache: refused\n"
"""Of one length: the one is written over the other."""
assert len(TRUSTED) == len(DISTRUSTED)


class DataFolder:
    """Made once per start, before any log is opened; it consumes the mark of a clean shutdown."""

    def __init__(
        self, files: Files, *, boot_id: str, page_cache: bool = False, to_repair: Collection[str] = ()
    ) -> None:
        """`page_cache`: acknowledged does not mean synced, so that a start need not sync what it finds. `to_repair`:
        folders of logs that an operator wants without what is damaged."""
        self._to_repair = to_repair
        self._damaged = False
        self._files = files
        self._boot_id = boot_id
        self._page_cache = page_cache
        self._version, self._recorded_boot, self._write_ahead = read_format(files)
        has_logs = any(name.rpartition("-")[2].isdigit() for name in files.list(""))
        self._foreign = has_logs and not self._recorded_boot
        self._written_boot = self._recorded_boot
        self._bring_up(has_logs=has_logs)
        self._marking = threading.Lock()
        self.replayed = self._replay()
        """How many files the write-ahead log had something for."""
        trust = read_text(files, TRUST_FILE)
        self.distrusted = trust not in (None, TRUSTED)
        if trust not in (TRUSTED, DISTRUSTED):
            files.write_whole(TRUST_FILE, (DISTRUSTED if self.distrusted else TRUSTED).encode())
        self.is_copy = files.exists(COPY_FILE)
        """Of a folder whose broker went on, and has given away numbers that this one knows nothing of."""
        self._trust_file = files.open(TRUST_FILE)
        self._telling = threading.Lock()
        self._failed = False
        self._recovery_points = read_offsets(files, RECOVERY_POINTS)
        self._start_offsets = read_offsets(files, LOG_START_OFFSETS)
        self.clean = take_clean_shutdown(files)  # when all else could be read
        self.same_boot = boot_id != "" and boot_id == self._recorded_boot
        self._may_end_cleanly = self.clean and not self.distrusted
        self._written = dict(self._recovery_points), dict(self._start_offsets)
        self._writing = threading.Lock()

    def _bring_up(self, *, has_logs: bool) -> None:
        """Refuse what is not ours, or a later version's; bring up what is older."""
        if self._version > FORMAT_VERSION:
            raise UnreadableDataFolder(
                f"The data folder has format {self._version}; this program knows {FORMAT_VERSION}. "
                "Use a newer version of it."
            )
        if self._version == 0 and self._files.exists(TRUST_FILE) and self._files.list(KRAFT_LOG):
            raise UnreadableDataFolder(NO_FORMAT.format(what="is missing"))
        if self._version == 0 and self._files.list(KRAFT_LOG):
            # Before anything is written, the mark of a clean shutdown included.
            raise UnreadableDataFolder(
                f"The data folder has a {KRAFT_LOG} of Apache Kafka's own: its topics are only known there, and this "
                "program cannot read it. Nothing was changed; use another folder."
            )
        while self._version < FORMAT_VERSION:
            if self._version in UPGRADES:
                UPGRADES[self._version](self._files)
            self._version += 1
            # Where there is no log, all of them have been checked.
            self._written_boot = self._recorded_boot if has_logs else self._boot_id
            self._write_format()

    def _write_format(self) -> None:
        text = format_text(self._version, self._written_boot, write_ahead=self._write_ahead)
        self._files.write_whole(FORMAT_FILE, text)

    def mark_write_ahead(self, there_is_one: bool) -> None:
        """Whether the next start has to find a write-ahead log. Durable when it returns; from any thread."""
        with self._marking:
            self._write_ahead = there_is_one
            self._write_format()

    def _replay(self) -> int:
        """An operator may go on without what only the write-ahead log had, where that is damaged."""
        try:
            return replay(self._files, expected=self._write_ahead, settled=lambda: self.mark_write_ahead(False))
        except UnreadableDataFolder:
            if AHEAD_FILE not in self._to_repair:
                raise
        if self._files.exists(AHEAD_FILE):
            self._files.rename(AHEAD_FILE, AHEAD_FILE + DAMAGED)
            self._files.sync_folder("")
        self.mark_write_ahead(False)
        return 0

    def recovery_of(self, topic: str, partition: int) -> Recovery:
        """What a log may believe when it is opened. A partition made later gets the same answer: nothing to believe."""
        return Recovery(
            recovery_point=self._recovery_points.get((topic, partition), 0),
            clean=self.clean,
            same_boot=self.same_boot,
            log_start_offset=self._start_offsets.get((topic, partition), 0),
            sync=not self._page_cache,
            distrusted=self.distrusted,
            foreign=self._foreign,
            repair=f"{topic}-{partition}" in self._to_repair,
        )

    def goes_its_own_way(self) -> None:
        """What was given away by the other one is never given away here."""
        self._files.delete(COPY_FILE)
        self.is_copy = False

    def damaged(self) -> None:
        """A log could not be opened: this life's end is no reason to believe what it holds. The next start looks as
        closely as this one has."""
        self._damaged = True

    def recovered(self) -> None:
        """Every log was opened: what they hold may be believed by the next start, on this boot. Not where a sync has
        failed meanwhile. May run on another thread."""
        with self._telling:
            if self._failed or self._damaged:
                return
            self._may_end_cleanly = True
            if self.distrusted:
                self._trust_file.write_at(0, TRUSTED.encode())
                self.distrusted = False
        with self._marking:
            if self._recorded_boot != self._boot_id:
                self._written_boot = self._boot_id
                self._write_format()
                self._recorded_boot = self._boot_id

    def distrust(self) -> bool:
        """A write or sync has failed: the next start is not to believe the page cache. False where even that failed.
        From any thread, any number of times."""
        with self._telling:
            self._failed = self.distrusted = True
            self._may_end_cleanly = False
            try:
                self._trust_file.write_at(0, DISTRUSTED.encode())
            except OSError:
                return False
        return True

    def forget(self, topic: str, partition: int) -> bool:
        """The partition is deleted; one of the same name begins anew. Whether there was anything to forget: then the
        next `checkpoint` has to come before that one is made."""
        recovery_point = self._recovery_points.pop((topic, partition), 0)
        return bool(self._start_offsets.pop((topic, partition), 0) or recovery_point)

    def forget_others(self, known: Collection[TopicPartition]) -> bool:
        """Only these partitions are there; as `forget` for all others, which a crash kept in the checkpoints."""
        others = {*self._recovery_points, *self._start_offsets}.difference(known)
        forgotten = [self.forget(*one) for one in others]
        return any(forgotten)

    def checkpoint(
        self, recovery_points: Mapping[TopicPartition, int], start_offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Write both checkpoints where they changed: all partitions there are, and no other. A deleted partition has to
        be gone from them before one of the same name is made. Durable when it returns; may run on another thread."""
        with self._writing:
            if recovery_points != self._written[0]:
                write_offsets(self._files, RECOVERY_POINTS, recovery_points)
            if start_offsets != self._written[1]:
                write_offsets(self._files, LOG_START_OFFSETS, start_offsets)
            self._written = dict(recovery_points), dict(start_offsets)

    def close_cleanly(self) -> None:
        """Every log that was opened is closed, and the last checkpoint written: nothing is to be recovered at the next
        start. Not said where logs that were to be recovered have not been opened at all."""
        if self._may_end_cleanly and not self._damaged:
            write_clean_shutdown(self._files)


class Format(NamedTuple):
    """What `tallystick.format` says of a folder."""

    version: int
    """Of everything in it; 0 where nothing says."""
    boot_id: str
    """That all of it was last read in."""
    write_ahead: bool
    """Whether there has to be a write-ahead log."""


def read_format(files: Files) -> Format:
    """Raises `UnreadableDataFolder`."""
    said = _said(files)
    try:
        if not said:
            return Format(0, "", write_ahead=False)
        return Format(int(said["version"]), str(said["boot_id"]), bool(said.get("write_ahead", False)))
    except (ValueError, KeyError, TypeError) as damaged:
        raise UnreadableDataFolder(NO_FORMAT.format(what="is damaged")) from damaged


def _said(files: Files) -> dict[str, Any]:
    """Nothing where there is no such file. Raises `UnreadableDataFolder`."""
    text = read_text(files, FORMAT_FILE)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as damaged:
        raise UnreadableDataFolder(NO_FORMAT.format(what="is damaged")) from damaged
    if not isinstance(found, dict) or not found:
        raise UnreadableDataFolder(NO_FORMAT.format(what="is damaged"))
    return found


def format_text(version: int, boot_id: str, *, write_ahead: bool = False) -> bytes:
    """`tallystick.format`, as `read_format` reads it."""
    said: dict[str, object] = {"version": version, "boot_id": boot_id}
    return (json.dumps(said | ({"write_ahead": True} if write_ahead else {})) + "\n").encode()
