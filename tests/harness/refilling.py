"""Batches with fewer records, record by record: compaction copies spans of bytes instead."""

from collections.abc import Sequence

from protocol.records.batch import COMPRESSION_MASK, DELETE_HORIZON, BatchHeader
from protocol.records.record import Record, _append_record, assemble


def refill_batch(header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """The batch with fewer records: as compaction leaves it. Offsets, sequences, producer and codec stay.

    With `delete_horizon_ms`, that becomes the base timestamp, and the flag that says so is set (KIP-534).
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON, delete_horizon_ms
    body = bytearray()
    for record in records:
        _append_record(body, record.timestamp_ms - base_timestamp, record.offset - header.base_offset, record)
    max_timestamp = header.max_timestamp
    if not header.log_append_time and records:
        max_timestamp = max(record.timestamp_ms for record in records)
    if not records:
        attributes &= ~COMPRESSION_MASK
    return assemble(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=len(records),
        ),
        body,
    )
