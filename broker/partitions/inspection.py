"""Looking inside a batch, and changing it, for the few topics that ask for it.

Compacted topics want keys, a bound on timestamps wants timestamps, `LogAppendTime` and `compression.type` change bytes
that the checksum covers. Everywhere else a batch stays closed.
"""

from broker.config.topic_config import TopicConfig
from broker.partitions.errors import AppendError, RecordError
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptRecords,
    read_header,
    seal,
)
from protocol.records.record import Record, records_of
from protocol.schema import Buffer

NO_TIMESTAMP = -1
_SHOWN_ERRORS = 3
_FOREVER = (1 << 63) - 1


def must_look_inside(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Whether the header alone does not settle that the records may stay as they are."""
    if config.log.cleanup_compact:
        return True
    if config.log_append_time:
        return header.log_append_time
    if config.timestamp_before_max_ms != _FOREVER:
        return True
    return header.max_timestamp > now_ms + config.timestamp_after_max_ms


def check_records(batch: Buffer, header: BatchHeader, config: TopicConfig, *, partition_name: str, now_ms: int) -> int:
    """Refuse records without a key in a compacted topic and records of an impossible time; returns the real maximum
    timestamp. All faults are named, the first decides the code, as Kafka has it."""
    errors: list[tuple[ErrorCode, RecordError]] = []
    max_timestamp, count = NO_TIMESTAMP, 0
    try:
        for index, record in enumerate(records_of(batch)):
            count += 1
            max_timestamp = max(max_timestamp, record.timestamp_ms)
            if config.log.cleanup_compact and record.key is None:
                message = f"Compacted topic cannot accept message without key in topic partition {partition_name}"
                errors.append((ErrorCode.INVALID_RECORD, RecordError(index, message)))
            elif fault := _timestamp_fault(record, header, config, now_ms):
                errors.append((ErrorCode.INVALID_TIMESTAMP, RecordError(index, fault)))
    except CorruptRecords as error:
        raise AppendError(ErrorCode.INVALID_RECORD, str(error)) from error
    if count != header.records_count:
        raise AppendError(ErrorCode.INVALID_RECORD, f"{count} records where the header says {header.records_count}")
    if errors:
        raise _record_failure(errors)
    return max_timestamp


def _timestamp_fault(record: Record, header: BatchHeader, config: TopicConfig, now_ms: int) -> str | None:
    if config.log_append_time:
        if not header.log_append_time:
            return None
        sizes = [f"{name}={0 if data is None else len(data)} bytes" for name, data in _parts(record)]
        shown = f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp_ms}, {', '.join(sizes)})"
        return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    if record.timestamp_ms == NO_TIMESTAMP or earliest <= record.timestamp_ms <= latest:
        return None
    return (
        f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _parts(record: Record) -> tuple[tuple[str, bytes | None], tuple[str, bytes | None]]:
    return ("key", record.key), ("value", record.value)


def _record_failure(errors: list[tuple[ErrorCode, RecordError]]) -> AppendError:
    code = errors[0][0]
    if code is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
            for _, error in errors[:_SHOWN_ERRORS]
        )
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing "
            f"the first three errors at most: [{shown}]"
        )
    return AppendError(code, message, message=message, record_errors=[error for _, error in errors])


def rewrite(batch: Buffer, header: BatchHeader, config: TopicConfig, max_timestamp: int) -> tuple[Buffer, BatchHeader]:
    """The batch as the topic wants it: with its kind of timestamps, its codec, and a true maximum timestamp.

    The same bytes where nothing has to change. Sequences, offsets and records stay; the checksum is made anew.
    """
    attributes = header.attributes & ~LOG_APPEND_TIME
    if config.log_append_time:
        attributes |= LOG_APPEND_TIME
    if config.compression_type not in ("producer", "uncompressed", "none"):
        attributes = attributes & ~COMPRESSION_MASK | compression.NAMES.index(config.compression_type)
    elif config.compression_type != "producer":
        attributes &= ~COMPRESSION_MASK
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return batch, header
    body: Buffer = memoryview(batch)[HEADER_SIZE : header.size]
    codec = attributes & COMPRESSION_MASK
    if codec != header.compression:
        body = _recompressed(body, header.compression, codec)
    changed = bytearray(HEADER.pack(*header._replace(attributes=attributes, max_timestamp=max_timestamp)))
    changed += body
    seal(changed)
    return changed, read_header(changed)


def _recompressed(body: Buffer, source: int, target: int) -> bytes:
    try:
        return compression.compress(target, compression.decompress(source, body))
    except CorruptRecords as error:
        raise AppendError(ErrorCode.INVALID_RECORD, str(error)) from error
