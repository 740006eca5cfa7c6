"""Which bytes are the data folder of one moment: of a broker that runs, in the links that it has made (a moment, see
`broker.upkeep.pinned_moments`), or of one that was stopped, under the lock of its folder.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker.backups.target import Refused, Whose
from broker.offline.untouched import UntouchedFiles
from broker.partitions.partition_store import PARTITION_FOLDER
from broker.upkeep.pinned_moments import ANOTHER_BOOT, DATA, MOMENT
from storage.checkpoints import (
    FORMAT_FILE,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    UnreadableDataFolder,
    read_meta_properties,
)
from storage.data_folder import FORMAT_VERSION, format_text, read_format
from storage.moment import SEGMENT_FILES, number_of
from storage.segments.segment_format import LOG, base_offset_of
from storage.write_ahead.replay import AHEAD_FILE

BESIDE_LOGS = (META_PROPERTIES, RECOVERY_POINTS, LOG_START_OFFSETS)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file, as far as it is to be copied."""

    path: str
    """In the data folder."""
    absolute: str
    length: int | None
    """Of a file that may be longer by now; None: all of it, and it does not change."""
    final: bool
    """Of a segment that is written to no more."""
    compacted: bool
    """Whether another file may have taken its place."""


@dataclass(frozen=True, slots=True)
class Source:
    """A data folder of one moment."""

    whose: Whose
    running: bool
    taken_ms: int | None
    """The moment, where it is past; None: nothing has changed since."""
    life: str
    """Of the broker that ran; "" where none did."""
    files: list[SourceFile]
    made: dict[str, bytes]
    """Small files that the data folder has otherwise, by path."""


def of_moment(folder: str) -> Source:
    """What a running broker holds on to. Raises `Refused`, `OSError`."""
    data = f"{folder}/{DATA}"
    with os.fdopen(os.open(f"{folder}/{MOMENT}", os.O_RDONLY | os.O_CLOEXEC), "rb") as read:
        head, *lines = [json.loads(line) for line in read]
    files = [SourceFile(name, f"{data}/{name}", None, False, False) for name in (*BESIDE_LOGS, FORMAT_FILE)]
    for said in lines:
        files += _of_log(data, said)
    return Source(_whose(data), True, int(head["taken_ms"]), str(head["life"]), files, {})


def _of_log(data: str, said: dict[str, Any]) -> Iterator[SourceFile]:
    folder, active, lengths = said["folder"], said.get("active"), said.get("lengths", {})
    for name in _listed(f"{data}/{folder}"):
        number = number_of(name)
        is_active = active is not None and number == active
        final = active is not None and number is not None and number < active and name[20:] in SEGMENT_FILES
        length = lengths.get(name[20:]) if is_active else None
        yield SourceFile(f"{folder}/{name}", f"{data}/{folder}/{name}", length, final, said["compacted"])


def of_stopped(root: str) -> Source:
    """A folder that nobody uses, as it is. Raises `Refused`, `OSError`."""
    whose = _whose(root)
    files = [SourceFile(name, f"{root}/{name}", None, False, False) for name in _listed(root) if name in BESIDE_LOGS]
    try:
        version, _, write_ahead = read_format(UntouchedFiles(root))
    except UnreadableDataFolder as problem:
        raise Refused(str(problem)) from None
    if version != FORMAT_VERSION:
        what = f"has format {version}" if version else "has no format of this program"
        raise Refused(f"{root} {what}; this program backs up folders of format {FORMAT_VERSION}")
    if os.path.exists(f"{root}/{AHEAD_FILE}"):  # of a broker that was killed: it may have what no segment has
        files.append(SourceFile(AHEAD_FILE, f"{root}/{AHEAD_FILE}", None, False, False))
    for folder in _listed(root):
        names = _listed(f"{root}/{folder}") if PARTITION_FOLDER.match(folder) else []
        if not any(name == PARTITION_METADATA or name.endswith(LOG) for name in names):
            continue
        active = max((base for name in names if (base := base_offset_of(name)) is not None), default=0)
        for name in names:
            final = (number := number_of(name)) is not None and number < active and name[20:] in SEGMENT_FILES
            # Nobody knows here what is compacted: what may have been is read again.
            files.append(SourceFile(f"{folder}/{name}", f"{root}/{folder}/{name}", None, final, True))
    made = {FORMAT_FILE: format_text(FORMAT_VERSION, ANOTHER_BOOT, write_ahead=write_ahead)}
    return Source(whose, False, None, "", files, made)


def _whose(root: str) -> Whose:
    try:
        found = read_meta_properties(UntouchedFiles(root))
    except UnreadableDataFolder as problem:
        raise Refused(str(problem)) from None
    if found is None:
        raise Refused(f"{root} is no data folder of a broker: {META_PROPERTIES} is missing in it")
    return Whose(found.cluster_id, found.node_id)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except NotADirectoryError:
        return []
