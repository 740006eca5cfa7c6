"""Finding a record by its time. The one place where a log looks inside a batch."""

from collections.abc import Iterable

from protocol.records.batch import read_header
from protocol.records.record import records_of
from protocol.schema import Buffer
from storage.log import TimestampedOffset


def first_record_at_or_after(
    timestamp_ms: int, batches: Iterable[Buffer], *, start_offset: int, end_offset: int
) -> TimestampedOffset | None:
    """The first record in [start_offset, end_offset) that is not older than `timestamp_ms`."""
    for batch in batches:
        header = read_header(batch)
        if header.base_offset >= end_offset:
            return None
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        for record in records_of(batch):
            if record.timestamp_ms >= timestamp_ms and start_offset <= record.offset < end_offset:
                return TimestampedOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None
