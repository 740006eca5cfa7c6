"""Appends at offsets of the test's choice, gaps included: a log as compaction leaves it."""

from protocol.records.batch import headers_in
from protocol.schema import Buffer
from storage.memory_log import MemoryLog
from storage.segment_log import SegmentLog
from storage.segments.segment import placed_by


def append_exactly(log: SegmentLog | MemoryLog, batches: Buffer) -> None:
    """Append batches that carry their offsets and epoch already."""
    for position, header in headers_in(batches):
        assert header.base_offset >= log.end_offset, "offsets only grow"
        placed, piece = placed_by(header), bytes(batches[position : position + header.size])
        if isinstance(log, MemoryLog):
            log._extend([piece], [placed])
        else:
            log._write([piece], [placed])
            if log._epochs.assign(header.leader_epoch, header.base_offset):
                log._write_epochs()
