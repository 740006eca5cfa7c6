"""Small files in the words of `kafka-dump-log`: indexes, snapshots of producers, and texts."""

from collections.abc import Iterator, Mapping
from struct import Struct

from storage.producers.producer_entry import BATCH, HEAD, NO_OFFSET, ProducerEntry
from storage.producers.producer_snapshot import decode_snapshot
from storage.segments.segment_format import OFFSET_ENTRY, TIME_ENTRY, base_offset_of

ABORTED_ENTRY = Struct(">hqqqq")
"""Version, producer id, first offset, last offset, last stable offset."""
Row = Mapping[str, int | None]


class NotWhole(Exception):
    """A file is no whole number of entries."""


def offset_index(name: str, data: bytes) -> Iterator[Row]:
    base = _base(name, ".index")
    for relative, position in _entries(OFFSET_ENTRY, data):
        yield {"offset": base + relative, "position": position}


def time_index(name: str, data: bytes) -> Iterator[Row]:
    base = _base(name, ".timeindex")
    for timestamp, relative in _entries(TIME_ENTRY, data):
        yield {"timestamp": timestamp, "offset": base + relative}


def aborted_index(name: str, data: bytes) -> Iterator[Row]:
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for fields in _entries(ABORTED_ENTRY, data):
        yield dict(zip(names, fields, strict=True))


def producer_snapshot(name: str, data: bytes) -> Iterator[Row]:
    """Raises `SnapshotUnreadable`."""
    for producer_id, packed in sorted(decode_snapshot(data).items()):
        yield _producer(producer_id, packed)


def _producer(producer_id: int, packed: bytes) -> Row:
    assert len(packed) in (HEAD.size, HEAD.size + BATCH.size)
    entry = ProducerEntry.unpack(packed)
    opened = entry.transaction_first_offset
    row = {
        "producerId": producer_id,
        "producerEpoch": entry.epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": None if opened == NO_OFFSET else opened,
        "lastTimestamp": entry.last_timestamp_ms,
    }
    if not entry.batches:  # it has written nothing since its epoch was raised
        return row
    last = entry.batches[-1]
    return row | {
        "firstSequence": last.first_sequence,
        "lastSequence": entry.last_sequence,
        "lastOffset": last.last_offset,
        "offsetDelta": last.offset_delta,
        "timestamp": last.timestamp_ms,
    }


def _entries(layout: Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    whole = len(data) // layout.size * layout.size
    yield from layout.iter_unpack(data[:whole])
    if whole < len(data):
        raise NotWhole(f"{len(data) - whole} bytes behind the last entry, at byte {whole}")


def _base(name: str, suffix: str) -> int:
    base = base_offset_of(name, suffix)
    if base is None:
        raise NotWhole("its name has no offset, which its entries count from")
    return base


TABLES = {".index": offset_index, ".timeindex": time_index, ".txnindex": aborted_index, ".snapshot": producer_snapshot}
"""By the end of a name."""
