"""Control records: what the broker itself writes among the records of a partition.

    key: version i16, type i16 (0 abort, 1 commit)      value: version i16, coordinator epoch i32

A marker is a batch of its own, takes one offset, carries the producer's id and epoch and no sequence.
Later versions are read as version 0 with something behind it.
"""

import struct
from dataclasses import dataclass

from protocol.records.batch import CONTROL, HEADER, MAGIC, TRANSACTIONAL, CorruptRecords, read_header, seal
from protocol.records.record import records_of
from protocol.schema import Buffer

ABORT = 0
COMMIT = 1
SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4
"""What begins and ends a snapshot of the metadata log (KIP-630)."""
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_MARKER = struct.Struct(HEADER.format + "BbBBBhhBhiB")
"""A whole marker: header; length, attributes, timestamp and offset delta; key; value; no headers. Short varints."""
_MARKER_RECORD_SIZE = 16
_MARKER_ATTRIBUTES = TRANSACTIONAL | CONTROL


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """What a marker says, besides whose transaction it ends (that is in the batch header)."""

    commit: bool
    coordinator_epoch: int


def end_transaction_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A whole control batch that ends a transaction in one partition."""
    batch = bytearray(_MARKER.size)
    _MARKER.pack_into(
        batch, 0,
        base_offset, 0, leader_epoch, MAGIC, 0, _MARKER_ATTRIBUTES, 0, timestamp_ms, timestamp_ms,
        producer_id, producer_epoch, -1, 1,
        _MARKER_RECORD_SIZE << 1, 0, 0, 0,
        _KEY.size << 1, 0, COMMIT if commit else ABORT, _VALUE.size << 1, 0, coordinator_epoch, 0,
    )  # fmt: skip
    seal(batch)
    return bytes(batch)


def control_key(type_: int) -> bytes:
    """The key of a control record of this type."""
    return _KEY.pack(0, type_)


def read_control_type(key: bytes | None) -> int:
    """The type of a control record, from its key."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords("a control record without a type")
    version, type_ = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"a control record of version {version}")
    return int(type_)


def read_end_transaction(batch: Buffer, position: int = 0) -> EndTransaction | None:
    """What the control batch at `position` says; None where it is another kind of control batch, or none at all."""
    header = read_header(batch, position)
    if not header.is_control or not header.records_count:
        return None
    record = next(records_of(batch, position))
    type_ = read_control_type(record.key)
    if type_ not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecords("a marker without a coordinator epoch")
    _version, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndTransaction(type_ == COMMIT, coordinator_epoch)
