"""Producer state on disk: what a restart would otherwise have to compute from the whole log.

`<offset>.snapshot` is Kafka's: the state before that offset, the last batch of each producer only.

    version i16 = 1 | crc32c u32 of all that follows | count i32 | count times:
    producer id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64,
    coordinator epoch i32, first offset of the open transaction i64

`<offset>.producers` is ours and lies beside it: the whole packed entries, so that a retry of any of the last five
batches is still recognised after a restart. It names the checksum of the snapshot it belongs to; where the two do not
match (another program wrote the snapshot), it is ignored.

    version i16 = 1 | crc32c u32 of all that follows | snapshot crc u32 | count i32 | count times:
    producer id i64, length u8, packed entry
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from crc32c import crc32c

from protocol.schema import Buffer
from storage.disposal import Disposal
from storage.files import Files
from storage.producers.producer_entry import BATCH, HEAD, NO_OFFSET, CachedBatch, ProducerEntry
from storage.producers.producer_state import ProducerState
from storage.steps import Blocking, Steps

SNAPSHOT_SUFFIX = ".snapshot"
SIDECAR_SUFFIX = ".producers"
KEPT_SNAPSHOTS = 3
"""The newest, and two to fall back on where it cannot be read."""

ENTRIES_PER_PART = 1024
"""What is encoded, or written, in one go."""

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_SIDECAR_COUNT = struct.Struct(">Ii")
_SIDECAR_ENTRY = struct.Struct(">qB")


class SnapshotUnreadable(Exception):
    """A snapshot is damaged, or of a version we do not know."""


def encode_snapshot(entries: dict[int, bytes]) -> list[bytearray]:
    """Kafka's snapshot of packed entries, in parts. There may be a million: nothing is made for each but its bytes, and
    no call works on more than a part, for the loop waits for it whatever thread it is on."""
    parts = [bytearray(_COUNT.pack(len(entries)))]
    for items in _in_parts(entries):
        part = bytearray(len(items) * _ENTRY.size)
        for index, (producer_id, packed) in enumerate(items):
            epoch, coordinator_epoch, timestamp_ms, _, first_offset = HEAD.unpack_from(packed)
            sequence, offset, delta = -1, NO_OFFSET, 0
            if len(packed) > HEAD.size:
                sequence, offset, delta, _ = BATCH.unpack_from(packed, len(packed) - BATCH.size)
            fields = (producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, first_offset)
            _ENTRY.pack_into(part, index * _ENTRY.size, *fields)
        parts.append(part)
    return _with_checksum(parts)


def decode_snapshot(data: Buffer) -> dict[int, bytes]:
    """The packed entries of Kafka's snapshot, each with at most one batch. Raises `SnapshotUnreadable`."""
    body = _checked_body(data)
    if len(body) < _COUNT.size or len(body) != _COUNT.size + _COUNT.unpack_from(body)[0] * _ENTRY.size:
        raise SnapshotUnreadable("the size does not fit the number of entries")
    entries = {}
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, first_offset = fields
        # An entry of which only a marker is known carries no batch, and must not gain one.
        batches = (CachedBatch(sequence, offset, delta, timestamp_ms),) if offset >= 0 else ()
        entry = ProducerEntry(epoch, coordinator_epoch, timestamp_ms, timestamp_ms, first_offset, batches)
        entries[producer_id] = entry.pack()
    return entries


def encode_sidecar(entries: dict[int, bytes], snapshot: Buffer) -> list[bytearray]:
    """In parts; `snapshot` is the first part of the snapshot, or all of it."""
    parts = [bytearray(_SIDECAR_COUNT.pack(_HEAD.unpack_from(snapshot)[1], len(entries)))]
    for items in _in_parts(entries):
        part = bytearray()
        for producer_id, packed in items:
            part += _SIDECAR_ENTRY.pack(producer_id, len(packed))
            part += packed
        parts.append(part)
    return _with_checksum(parts)


def decode_sidecar(data: Buffer, snapshot: Buffer) -> dict[int, bytes]:
    """The packed entries of a sidecar that belongs to `snapshot`. Raises `SnapshotUnreadable`."""
    body = _checked_body(data)
    snapshot_crc, count = _SIDECAR_COUNT.unpack_from(body)
    if snapshot_crc != _HEAD.unpack_from(snapshot)[1]:
        raise SnapshotUnreadable("the sidecar belongs to another snapshot")
    entries = {}
    position = _SIDECAR_COUNT.size
    for _ in range(count):
        producer_id, length = _SIDECAR_ENTRY.unpack_from(body, position)
        position += _SIDECAR_ENTRY.size
        entries[producer_id] = bytes(body[position : position + length])
        position += length
    return entries


class SnapshotFiles:
    """The snapshots in the folder of one log. `write` and `forget_before` may be called on any thread."""

    def __init__(self, files: Files, folder: str, disposal: Disposal | None = None) -> None:
        self._files = files
        self._folder = folder
        self._disposal = Disposal(files) if disposal is None else disposal

    def off_the_loop(self, work: Blocking) -> Steps[None]:
        """Whatever happens to the log meanwhile, its files stay where they are."""
        return self._disposal.off_the_loop(work)

    def offsets(self) -> list[int]:
        """Of which offsets there are snapshots, oldest first."""
        return _offsets_in(self._files.list(self._folder))

    def write(self, offset: int, entries: dict[int, bytes], *, durable_offset: int) -> None:
        """Write down the entries before `offset`; durable when this returns. Old snapshots leave, but not the newest
        one within what is durable of the log: a power cut may take away all that is younger."""
        snapshot = encode_snapshot(entries)
        if entries:
            self._files.write_whole(self._path(offset, SIDECAR_SUFFIX), *encode_sidecar(entries, snapshot[0]))
        else:
            self._files.delete(self._path(offset, SIDECAR_SUFFIX))
        self._files.write_whole(self._path(offset, SNAPSHOT_SUFFIX), *snapshot)
        names = self._files.list(self._folder)
        offsets = _offsets_in(names)
        certain = [offset for offset in offsets if offset <= durable_offset]
        self._keep(names, certain[-1:] + offsets[-KEPT_SNAPSHOTS:])

    def load(self, *, start_offset: int, end_offset: int, now_ms: int, expiration_ms: int) -> ProducerState | None:
        """The newest usable state within the log; unusable snapshots are deleted. None: replay from the start.

        A snapshot from before the log start is useless: what came after it may be gone from the log. One from behind
        the log's end contains records that were lost, and must never come back: the log may grow past it again.
        """
        state = None
        unusable = []
        for offset in reversed(self.offsets()):
            entries = self._read(offset) if start_offset <= offset <= end_offset else None
            if entries is not None:
                state = ProducerState(offset)
                state.restore(entries, now_ms, expiration_ms)
                break
            unusable.append(offset)
        self._delete(unusable)
        return state

    def forget_before(self, offset: int) -> None:
        """The log below `offset` is about to be compacted. A marker may be gone then whose transaction is still open in
        an older snapshot: such a snapshot must not be replayed from."""
        self._delete([older for older in self.offsets() if older < offset])

    def _read(self, offset: int) -> dict[int, bytes] | None:
        snapshot = self._contents(self._path(offset, SNAPSHOT_SUFFIX))
        try:
            entries = decode_snapshot(snapshot)
        except SnapshotUnreadable:
            return None
        path = self._path(offset, SIDECAR_SUFFIX)
        if not self._files.exists(path):
            return entries
        try:
            return decode_sidecar(self._contents(path), snapshot)
        except SnapshotUnreadable:
            return entries

    def _contents(self, path: str) -> bytes:
        file = self._files.open(path)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def _keep(self, names: list[str], offsets: list[int]) -> None:
        """Delete all other snapshots and sidecars; retention takes away snapshots, but knows of no sidecars."""
        # Names come sorted. A snapshot goes before its sidecar, so that a power cut leaves none without its own.
        for name in reversed(names):
            stem, _, suffix = name.partition(".")
            if "." + suffix in (SNAPSHOT_SUFFIX, SIDECAR_SUFFIX) and stem.isdigit() and int(stem) not in offsets:
                with suppress(IsADirectoryError):  # not ours, and in no one's way
                    self._files.delete(f"{self._folder}/{name}")

    def _delete(self, offsets: list[int]) -> None:
        """Delete snapshots that would mislead; they are gone for good when this returns."""
        for offset in offsets:
            self._files.delete(self._path(offset, SNAPSHOT_SUFFIX))
            self._files.delete(self._path(offset, SIDECAR_SUFFIX))
        if offsets:
            self._files.sync_folder(self._folder)

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._folder}/{offset:020d}{suffix}"


def _in_parts(entries: dict[int, bytes]) -> Iterator[list[tuple[int, bytes]]]:
    items = iter(entries.items())
    while part := list(islice(items, ENTRIES_PER_PART)):
        yield part


def _with_checksum(parts: list[bytearray]) -> list[bytearray]:
    """Put in front what stands before the body."""
    crc = 0
    for part in parts:
        crc = crc32c(part, crc)
    parts[0][:0] = _HEAD.pack(_VERSION, crc)
    return parts


def _checked_body(data: Buffer) -> memoryview:
    if len(data) < _HEAD.size:
        raise SnapshotUnreadable("too short")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise SnapshotUnreadable(f"version {version}")
    if crc != crc32c(body):
        raise SnapshotUnreadable("the checksum is wrong")
    return body


def _offsets_in(names: list[str]) -> list[int]:
    """Of which offsets there are snapshots, oldest first."""
    stems = [name[: -len(SNAPSHOT_SUFFIX)] for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isdigit())
