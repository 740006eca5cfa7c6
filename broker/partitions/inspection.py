"""Looking inside a batch, and changing it.

Compacted topics want keys, a bound on timestamps wants timestamps, `LogAppendTime` and `compression.type` change bytes
that the checksum covers: there every record is read. Elsewhere compressed batches are opened, to see that they can be,
and records are counted where that costs little (decision 0014). All of it goes in steps (`storage.steps`).
"""

from broker.config.topic_config import FOREVER_MS, RecordChecks, TopicConfig
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
from protocol.records.compression import Body, TooManyBytes, Undecodable, decompress_into
from protocol.records.record import check_room
from protocol.records.spans import Span, skip_records, spans_in
from protocol.schema import Buffer
from storage.steps import RECORDS_AT_ONCE, Spent, Steps, opened, sealed

NO_TIMESTAMP = -1
FEW_RECORDS = 8
"""Counting a record costs a quarter of a microsecond: little beside the forty of a small Produce, and in a large batch
of small records as much as everything else that is done with it."""
COUNTED_AT_ONCE = 16 * RECORDS_AT_ONCE
_SHOWN_ERRORS = 3
_MOST_ERRORS = 1_000
"""How many faulty records are named in an answer."""


def must_read_all(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Whether the header alone does not settle that the records may stay as they are."""
    if config.log.cleanup_compact:
        return True
    if config.log_append_time:
        return header.log_append_time
    if config.timestamp_before_max_ms != FOREVER_MS:
        return True
    return header.max_timestamp > now_ms + config.timestamp_after_max_ms


def check_room_for_records(header: BatchHeader, config: TopicConfig) -> None:
    """By its header alone: no batch may claim more offsets than it can have records. Raises `AppendError`."""
    size, codec = header.size - HEADER_SIZE, header.attributes & COMPRESSION_MASK
    if codec and size:
        size = config.log.decompression.limit_of(size)
    elif codec not in (compression.NONE, compression.ZSTD):
        raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, "nothing is no compressed stream, but for zstd")
    if header.records_count * compression.SMALLEST_RECORD > size:
        raise AppendError(ErrorCode.INVALID_RECORD, f"{header.records_count} records in {header.size} bytes")


def count_records(batch: memoryview, header: BatchHeader, config: TopicConfig) -> None:
    """An uncompressed batch has exactly the records of its header. Raises `AppendError`."""
    if config.record_checks is RecordChecks.HEADER:
        return
    try:
        if skip_records(batch, HEADER_SIZE, header.records_count) != len(batch):
            raise CorruptRecords("there is more in the batch than its records")
    except CorruptRecords as error:
        raise _refused(error) from error


def open_small(batch: memoryview, header: BatchHeader, config: TopicConfig, room: bytearray) -> bool:
    """Open a compressed batch in `room`, and check of its records what has to be where not all are read; False where
    they do not fit, or may not come to as much as it holds. Raises `AppendError`."""
    limit = config.log.decompression.limit_of(header.size - HEADER_SIZE)
    if limit < len(room):
        return False
    try:
        try:
            size = decompress_into(header.attributes & COMPRESSION_MASK, batch[HEADER_SIZE:], room)
        except TooManyBytes:
            if limit > len(room):
                return False
            raise
        with memoryview(room)[:size] as body:
            check_room(header, body)
            if header.records_count <= FEW_RECORDS and (end := skip_records(body, 0, header.records_count)) != size:
                raise CorruptRecords(f"{size - end} bytes behind the last record")
    except CorruptRecords as error:
        raise _refused(error) from error
    return True


def read_batch(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    *,
    partition_name: str,
    now_ms: int,
    spent: Spent,
    at_once: bool,
) -> Steps[int]:
    """Open a batch and check of its records what has to be. Returns the largest timestamp: the real one where all
    records were read. Raises `AppendError`. `at_once`: see `storage.steps.opened`."""
    try:
        body = yield from opened(header, batch, config.log.decompression, at_once=at_once)
        if must_read_all(header, config, now_ms):
            return (yield from _check_all(body, header, config, partition_name, now_ms, spent))
        if config.record_checks is RecordChecks.ALL or header.records_count <= FEW_RECORDS:
            yield from _count(body, header, spent)
        else:
            check_room(header, body)
    except CorruptRecords as error:
        raise _refused(error) from error
    return header.max_timestamp


def _count(body: Body, header: BatchHeader, spent: Spent) -> Steps[None]:
    at, left = 0, header.records_count
    check_room(header, body)
    while left:
        now = min(left, COUNTED_AT_ONCE)
        at = skip_records(body, at, now)
        left -= now
        if left and spent():
            yield None
    if at != len(body):
        raise CorruptRecords(f"{len(body) - at} bytes behind the last record")


def _refused(error: CorruptRecords) -> AppendError:
    """Kafka's codes. A batch that grows too much is as one that is too large: its producer may split it."""
    if isinstance(error, TooManyBytes):
        return AppendError(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    code = ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(error, Undecodable) else ErrorCode.INVALID_RECORD
    return AppendError(code, str(error))


def _check_all(
    body: Body, header: BatchHeader, config: TopicConfig, partition_name: str, now_ms: int, spent: Spent
) -> Steps[int]:
    """Refuse records without a key in a compacted topic and records of an impossible time; returns the real maximum
    timestamp. The faults are named, the first decides the code, as Kafka has it."""
    errors: list[tuple[ErrorCode, RecordError]] = []
    max_timestamp, faulty = NO_TIMESTAMP, 0
    keys_wanted, base_offset = config.log.cleanup_compact, header.base_offset
    for index, span in enumerate(spans_in(header, body)):
        _, _, offset, timestamp_ms, key, _ = span
        if header.compression and offset != base_offset + index:
            raise Undecodable(f"the offset {offset} of record {index} of a compressed batch")
        max_timestamp = max(max_timestamp, timestamp_ms)
        code, fault = ErrorCode.INVALID_RECORD, None
        if keys_wanted and key is None:
            fault = f"Compacted topic cannot accept message without key in topic partition {partition_name}"
        else:
            code, fault = ErrorCode.INVALID_TIMESTAMP, _timestamp_fault(span, header, config, now_ms)
        if fault is not None:
            faulty += 1
            if len(errors) < _MOST_ERRORS:
                errors.append((code, RecordError(index, fault)))
        if not index % RECORDS_AT_ONCE and spent():
            yield None
    if errors:
        raise _record_failure(errors, faulty)
    return max_timestamp


def _timestamp_fault(span: Span, header: BatchHeader, config: TopicConfig, now_ms: int) -> str | None:
    _, _, offset, timestamp_ms, key, value_bytes = span
    if config.log_append_time:
        if not header.log_append_time:
            return None
        sizes = f"key={0 if key is None else len(key)} bytes, value={max(0, value_bytes)} bytes"
        shown = f"DefaultRecord(offset={offset}, timestamp={timestamp_ms}, {sizes})"
        return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    if timestamp_ms == NO_TIMESTAMP or earliest <= timestamp_ms <= latest:
        return None
    return (
        f"Timestamp {timestamp_ms} of message with offset {offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _record_failure(errors: list[tuple[ErrorCode, RecordError]], faulty: int) -> AppendError:
    code = errors[0][0]
    if code is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
            for _, error in errors[:_SHOWN_ERRORS]
        )
        message = (
            f"One or more records have been rejected due to {faulty} record errors in total, and only showing "
            f"the first three errors at most: [{shown}]"
        )
    return AppendError(code, message, message=message, record_errors=[error for _, error in errors])


def rewrite(
    batch: Buffer, header: BatchHeader, config: TopicConfig, max_timestamp: int
) -> Steps[tuple[Buffer, BatchHeader]]:
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
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    if changed.compression == header.compression:
        out = bytearray(HEADER.pack(*changed))
        out += memoryview(batch)[HEADER_SIZE : header.size]
        seal(out)
        return out, read_header(out)
    body = yield from opened(header, batch, config.log.decompression)  # as `read_batch` did before
    again = yield from sealed(changed, body, config.compression_level)
    return again, read_header(again)
