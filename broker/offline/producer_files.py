"""What lies beside a log about its producers, held against what replaying the log gives: snapshots, the entries that
belong to them, and the index of aborted transactions.

What is behind the newest snapshot the next start makes anew by itself; what lies before it is believed.
"""

from collections.abc import Mapping

from crc32c import crc32c

from broker.offline.dumped_tables import ABORTED_ENTRY
from broker.offline.findings import Findings
from broker.offline.untouched import UntouchedFiles
from storage.producers.aborted import INDEX_SUFFIX, AbortedTransaction
from storage.producers.producer_changes import CompletedTransaction
from storage.producers.producer_entry import NO_OFFSET, ProducerEntry
from storage.producers.producer_snapshot import (
    SIDECAR_SUFFIX,
    SNAPSHOT_SUFFIX,
    SnapshotUnreadable,
    decode_sidecar,
    decode_snapshot,
)
from storage.producers.producer_state import ProducerState
from storage.segments.segment_format import base_offset_of, file_name


class CheckedSnapshots:
    """The snapshots of one log, compared when the replay has come to each."""

    def __init__(self, files: UntouchedFiles, folder: str, findings: Findings, *, is_whole: bool) -> None:
        """`is_whole`: all that was ever written is there, neither deleted nor compacted."""
        self._files = files
        self._folder = folder
        self._findings = findings
        self._is_whole = is_whole
        found = (base_offset_of(name, SNAPSHOT_SUFFIX) for name in files.list(folder))
        self._offsets = sorted(offset for offset in found if offset is not None)
        self.newest = self._offsets[-1] if self._offsets else -1

    def reached(self, state: ProducerState, next_offset: int) -> None:
        """The state holds all below `next_offset`, where the next batch begins or the log ends."""
        while self._offsets and self._offsets[0] <= next_offset:
            offset = self._offsets.pop(0)
            path = f"{self._folder}/{file_name(offset, SNAPSHOT_SUFFIX)}"
            entries = self._read(path)
            if entries is not None and offset >= state.offset:
                self._compare(path, entries, state)

    def end(self, end_offset: int, *, clean: bool) -> None:
        """What is left lies behind the log's end."""
        for offset in self._offsets:
            path = f"{self._folder}/{file_name(offset, SNAPSHOT_SUFFIX)}"
            what = f"it is of offset {offset}, and the log ends at {end_offset}"
            if clean:
                self._findings.damage(path, None, what)
            else:
                self._findings.recovery(path, None, what)

    def _read(self, path: str) -> Mapping[int, bytes] | None:
        data = self._files.contents(path)
        try:
            entries = decode_snapshot(data)
        except SnapshotUnreadable as problem:
            self._findings.damage(path, None, str(problem))
            return None
        sidecar = path.removesuffix(SNAPSHOT_SUFFIX) + SIDECAR_SUFFIX
        if not self._files.exists(sidecar):
            return entries
        try:
            return decode_sidecar(self._files.contents(sidecar), data)
        except SnapshotUnreadable as problem:
            self._findings.damage(sidecar, None, str(problem))
            return entries

    def _compare(self, path: str, entries: Mapping[int, bytes], state: ProducerState) -> None:
        for producer_id in sorted({*entries, *state.ids()}):
            packed, replayed = entries.get(producer_id), state.entry(producer_id)
            if packed is None:
                if replayed is not None and replayed.transaction_first_offset != NO_OFFSET:
                    self._findings.damage(path, None, f"producer {producer_id}, whose transaction is open, is missing")
                continue  # one that was silent for long is forgotten
            written = ProducerEntry.unpack(packed)
            if replayed is None:
                if self._is_whole:
                    self._findings.damage(path, None, f"producer {producer_id} has written nothing before it")
            elif self._is_whole and (difference := _difference(written, replayed)):
                self._findings.damage(path, None, f"producer {producer_id}: {difference}")


def _difference(written: ProducerEntry, replayed: ProducerEntry) -> str:
    pairs = {
        "epoch": (written.epoch, replayed.epoch),
        "first offset of its transaction": (written.transaction_first_offset, replayed.transaction_first_offset),
        "last sequence": (written.last_sequence, replayed.last_sequence),
        "last offset": tuple(one.batches[-1].last_offset if one.batches else -1 for one in (written, replayed)),
    }
    return ", ".join(f"{name} {said} where the log has {has}" for name, (said, has) in pairs.items() if said != has)


class CheckedAborted:
    """The index of aborted transactions of one segment."""

    def __init__(self, files: UntouchedFiles, folder: str, base_offset: int, findings: Findings) -> None:
        self._path = f"{folder}/{file_name(base_offset, INDEX_SUFFIX)}"
        self._findings = findings
        self._base_offset = base_offset
        self._data = files.contents(self._path) if files.exists(self._path) else b""
        self._completed: dict[int, CompletedTransaction] = {}
        self._aborts: dict[int, int] = {}

    def marker(self, producer_id: int, offset: int, completed: CompletedTransaction | None) -> None:
        """An abort marker stands at an offset."""
        self._aborts[offset] = producer_id
        if completed is not None:
            self._completed[offset] = completed

    def end(self, *, compacted: bool, believed_before: int, checkpoint: tuple[int, int] | None, clean: bool) -> None:
        """`believed_before`: below, the next start believes the index. `checkpoint`: entries and their checksum, as
        they were when the index was last synced. `clean`: the last run ended in order."""
        size = ABORTED_ENTRY.size
        whole = len(self._data) // size * size
        last, entries = -1, {}
        for number, (version, *fields) in enumerate(ABORTED_ENTRY.iter_unpack(self._data[:whole])):
            entry = AbortedTransaction(*fields)
            entries[entry.last_offset] = entry
            position = number * size
            if version != 0 or not entry.first_offset < entry.last_offset or entry.last_offset <= last:
                # A power cut leaves anything behind what was synced. One that is missing for that is found below.
                is_rest = not clean and checkpoint is not None and number >= checkpoint[0]
                say = self._findings.recovery if is_rest else self._findings.damage
                say(self._path, position, f"no such entry can be: {tuple(entry)}")
            elif self._aborts.get(entry.last_offset) != entry.producer_id and not compacted:
                what = f"there is no abort marker of producer {entry.producer_id} at offset {entry.last_offset}"
                self._found(position, entry.last_offset, believed_before, what)
            last = entry.last_offset
        for offset, completed in self._completed.items():
            entry_there = entries.get(offset)
            if entry_there is None or entry_there.first_offset > completed.first_offset:
                what = (
                    f"the aborted transaction of producer {completed.producer_id} in offsets {completed.first_offset} "
                    f"to {offset} is missing: readers would be shown its records"
                )
                self._found(None, offset, believed_before, what)
        if len(self._data) > whole:
            self._found(whole, last + 1, believed_before, "there is a part of an entry")
        self._compare(checkpoint)

    def _found(self, position: int | None, offset: int, believed_before: int, what: str) -> None:
        if offset < believed_before:
            self._findings.damage(self._path, position, what)
        else:
            self._findings.recovery(self._path, position, what)

    def _compare(self, checkpoint: tuple[int, int] | None) -> None:
        if checkpoint is None:
            return
        count, crc = checkpoint
        synced = self._data[: count * ABORTED_ENTRY.size]
        if len(synced) < count * ABORTED_ENTRY.size:
            self._findings.damage(self._path, len(self._data), f"{count} entries were synced, there are fewer")
        elif crc32c(synced) != crc:
            self._findings.damage(self._path, 0, f"the first {count} entries are not those that were synced")
