"""The data folder as a whole: its format version, how its last use ended, and what each log may believe on opening.

Rules for upgrades. `tallystick.format` carries one number for everything in the folder. A folder with a newer number is
refused; an older one is brought up step by step (`UPGRADES`), the number being written after each step, so that an
upgrade that was cut short goes on where it stopped. A folder without the file is new, or Kafka's own, whose formats
ours are.
"""

import json
from collections.abc import Callable, Mapping

from storage.checkpoints import (
    FORMAT_FILE,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
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

FORMAT_VERSION = 1
UPGRADES: Mapping[int, Callable[[Files], None]] = {}
"""From a version to the next one."""


class DataFolder:
    """Made once per start, before any log is opened; it consumes the mark of a clean shutdown."""

    def __init__(self, files: Files, *, boot_id: str) -> None:
        self._files = files
        version, last_boot = _read_format(files)
        if version > FORMAT_VERSION:
            raise UnreadableDataFolder(
                f"The data folder has format {version}; this program knows {FORMAT_VERSION}. Use a newer version of it."
            )
        while version < FORMAT_VERSION:
            if version in UPGRADES:
                UPGRADES[version](files)
            version += 1
            _write_format(files, version, last_boot)
        self.clean = take_clean_shutdown(files)
        self.same_boot = boot_id != "" and boot_id == last_boot
        self._recovery_points = read_offsets(files, RECOVERY_POINTS)
        self._start_offsets = read_offsets(files, LOG_START_OFFSETS)
        self._written = dict(self._recovery_points), dict(self._start_offsets)
        if boot_id != last_boot:
            _write_format(files, version, boot_id)
        self._boot_id = boot_id

    def recovery_of(self, topic: str, partition: int) -> Recovery:
        """What a log may believe when it is opened. A partition made later gets the same answer: nothing to believe."""
        return Recovery(
            recovery_point=self._recovery_points.get((topic, partition), 0),
            clean=self.clean,
            same_boot=self.same_boot,
            log_start_offset=self._start_offsets.get((topic, partition), 0),
        )

    def forget(self, topic: str, partition: int) -> None:
        """The partition is deleted; one of the same name begins anew."""
        self._recovery_points.pop((topic, partition), None)
        self._start_offsets.pop((topic, partition), None)

    def checkpoint(
        self, recovery_points: Mapping[TopicPartition, int], start_offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Write both checkpoints where they changed: all partitions there are, and no other. A deleted partition has to
        be gone from them before one of the same name is made. Durable when it returns; may run on another thread."""
        if recovery_points != self._written[0]:
            write_offsets(self._files, RECOVERY_POINTS, recovery_points)
        if start_offsets != self._written[1]:
            write_offsets(self._files, LOG_START_OFFSETS, start_offsets)
        self._written = dict(recovery_points), dict(start_offsets)

    def close_cleanly(self) -> None:
        """Every log is closed and the last checkpoint written: nothing is to be recovered at the next start."""
        write_clean_shutdown(self._files)


def _read_format(files: Files) -> tuple[int, str]:
    text = read_text(files, FORMAT_FILE)
    if text is None:
        return 0, ""
    try:
        found = json.loads(text)
        return int(found["version"]), str(found["boot_id"])
    except (ValueError, KeyError, TypeError) as damaged:
        raise UnreadableDataFolder(f"{FORMAT_FILE} is damaged ({damaged}).") from damaged


def _write_format(files: Files, version: int, boot_id: str) -> None:
    files.write_whole(FORMAT_FILE, (json.dumps({"version": version, "boot_id": boot_id}) + "\n").encode())
