"""What a crash leaves of the logs: a prefix. Of what was there before, the first batches are there again, bit by bit,
and what stands behind them was written since. Where an acknowledgement means the page cache, a power cut may take any
number of the last batches of each log, and that is all that is promised.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from protocol.records.batch import CorruptRecords, headers_in
from storage.segments.segment_format import base_offset_of
from tests.harness.disk import SimulatedDisk

TOPICS = ("a", "b", "out")
"""Topics that are there for good, and not compacted."""


class Batch(NamedTuple):
    """One batch of a log, as it is recognised."""

    base_offset: int
    leader_epoch: int
    crc: int


Logs = dict[str, list[Batch]]
"""By folder."""


def logs_on(disk: SimulatedDisk) -> Logs:
    """What the page cache has of each log, up to the first tear of each segment."""
    folders = [folder for folder in disk.list("") if folder.rpartition("-")[0] in TOPICS]
    return {folder: list(_batches(disk, folder)) for folder in folders}


def _batches(disk: SimulatedDisk, folder: str) -> Iterator[Batch]:
    for name in disk.list(folder):
        if base_offset_of(name) is None:
            continue
        with contextlib.suppress(CorruptRecords):
            for _, header in headers_in(bytes(disk.inode(f"{folder}/{name}").content)):
                yield Batch(header.base_offset, header.leader_epoch, header.crc)


def no_prefixes(before: Logs, after: Logs) -> Iterator[str]:
    """Sentences about logs that are not what they were, as far as they go."""
    for folder, was in before.items():
        now = after.get(folder, [])
        known = max((batch.leader_epoch for batch in was), default=-1)
        old = [batch for batch in now if batch.leader_epoch <= known]
        while old and was and old[0].base_offset < was[0].base_offset:
            now, old = now[1:], old[1:]  # the deletion of a segment was not on the disk
        if now[: len(old)] != old:
            yield f"{folder}: what was written before a crash stands behind what was written since"
        starts = [batch.base_offset for batch in was]
        first = starts.index(old[0].base_offset) if old and old[0].base_offset in starts else 0
        if was[first : first + len(old)] != old:
            yield f"{folder}: a crash left {len(old)} batches, {old[:1]} to {old[-1:]}, no prefix of {was[first:]}"
