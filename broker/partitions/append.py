"""What a client may append: the checks that need no state, in Kafka's order, over 61 bytes and one checksum.

What has to be looked at behind the header, and when, is `inspection`'s to know (decision 0014).
"""

from dataclasses import dataclass
from typing import Final

from broker.config.topic_config import RecordChecks, TopicConfig
from broker.partitions.errors import AppendError
from broker.partitions.inspection import (
    FEW_RECORDS,
    check_room_for_records,
    count_records,
    must_read_all,
    open_small,
    read_batch,
    rewrite,
)
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import (
    BEFORE_LENGTH_COUNTS,
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_crc,
    read_header,
)
from protocol.schema import Buffer
from storage.steps import Spent, Steps, finish, never

_SMALLEST_LENGTH: Final = 14
"""What Kafka takes for the shortest message there ever was; anything that claims less is damage."""
_BEFORE_RECORDS_COUNT: Final = MAGIC_AT + 1


@dataclass(init=False, slots=True)
class Appended:
    """What became of a Produce to one partition."""

    base_offset: Final[int]
    last_offset: Final[int]
    log_append_time_ms: Final[int]
    """-1 where the topic keeps its producers' timestamps; of a duplicate, the timestamp of the original."""
    log_start_offset: Final[int]
    duplicate: Final[bool]
    """Nothing was written: the batch was here before, at these offsets."""

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate

    @property
    def next_offset(self) -> int:
        """What must be committed before acks=all may be answered."""
        return self.last_offset + 1


@dataclass(init=False, slots=True)
class CheckedBatch:
    """One batch, fit to be appended as far as its own bytes tell."""

    header: Final[BatchHeader]
    batch: Final[Buffer]
    log_append_time_ms: Final[int]
    config: Final[TopicConfig]
    """What it was held to."""

    def __init__(self, header: BatchHeader, batch: Buffer, log_append_time_ms: int, config: TopicConfig) -> None:
        self.header = header
        self.batch = batch
        self.log_append_time_ms = log_append_time_ms
        self.config = config


def check_batch(
    records: memoryview,
    config: TopicConfig,
    partition_name: str,
    header: BatchHeader | None = None,
    *,
    now_ms: int,
    zstd_allowed: bool,
    log_start_offset: int,
) -> CheckedBatch:
    """The one batch of a Produce, checked and, where the topic asks for it, rewritten. Raises `AppendError`. `header`:
    that of `records`, where it is known."""
    batch, header = _sound_batch(records, config, zstd_allowed, log_start_offset, header)
    try:
        check_header(header, config)
        if not must_open(header, config, now_ms):
            if header.records_count <= FEW_RECORDS and not header.attributes & COMPRESSION_MASK:
                count_records(batch, header, config)
            if header.attributes & LOG_APPEND_TIME or config.log_append_time:
                newest_ms = now_ms if config.log_append_time else header.max_timestamp
                return finish(_rewritten(batch, header, config, newest_ms, now_ms))
            return _fitting(batch, header, config, now_ms)
        return finish(_opened(batch, header, config, partition_name, now_ms, never))
    except AppendError as error:
        raise _at(error, log_start_offset) from None


def checking(
    records: memoryview,
    config: TopicConfig,
    partition_name: str,
    *,
    now_ms: int,
    zstd_allowed: bool,
    log_start_offset: int,
    spent: Spent,
    at_once: bool = True,
) -> Steps[CheckedBatch]:
    """The same in steps, for a batch that has to be opened. `at_once`: see `storage.steps.opened`."""
    if spent():
        yield None
    batch, header = _sound_batch(records, config, zstd_allowed, log_start_offset)
    try:
        check_header(header, config)
        return (yield from _opened(batch, header, config, partition_name, now_ms, spent, at_once=at_once))
    except AppendError as error:
        raise _at(error, log_start_offset) from None


def check_small(
    records: memoryview,
    config: TopicConfig,
    room: bytearray,
    *,
    now_ms: int,
    zstd_allowed: bool,
    log_start_offset: int,
    header: BatchHeader | None = None,
) -> CheckedBatch | None:
    """The same at once for a compressed batch, in `room`, where not every record is to be read; None where its records
    do not fit."""
    batch, header = _sound_batch(records, config, zstd_allowed, log_start_offset, header)
    try:
        check_header(header, config)
        return _fitting(batch, header, config, now_ms) if open_small(batch, header, config, room) else None
    except AppendError as error:
        raise _at(error, log_start_offset) from None


def must_open(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Whether more is to be done with a batch than a header, a checksum and a few records take."""
    if config.leaves_closed and not header.attributes & COMPRESSION_MASK:  # as good as all of them
        return header.max_timestamp > now_ms + config.timestamp_after_max_ms
    if config.recompresses or must_read_all(header, config, now_ms):
        return True
    if header.compression:
        return config.record_checks is not RecordChecks.HEADER
    return config.record_checks is RecordChecks.ALL and header.records_count > FEW_RECORDS


def _sound_batch(
    records: memoryview,
    config: TopicConfig,
    zstd_allowed: bool,
    log_start_offset: int,
    header: BatchHeader | None = None,
) -> tuple[memoryview, BatchHeader]:
    batch, length = records, len(records) - BEFORE_LENGTH_COUNTS
    if header is None or header.batch_length != length or header.magic != MAGIC or not zstd_allowed:
        batch = the_only_batch(records, zstd_allowed=zstd_allowed)
        header = read_header(batch)
    if header.base_offset != 0:
        raise _invalid(f"the base offset should be 0, but it is {header.base_offset}", log_start_offset)
    if len(batch) > config.max_message_bytes:
        raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes, {config.max_message_bytes} are allowed")
    if not check_crc(batch, 0, header):
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, "the checksum is wrong")
    return batch, header


def _at(error: AppendError, log_start_offset: int) -> AppendError:
    if error.code not in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        error.log_start_offset = log_start_offset
    return error


def the_only_batch(records: memoryview, *, zstd_allowed: bool = True) -> memoryview:
    """The bytes of the batch in a Produce; there must be exactly one, of the current format (KIP-98).

    A batch that is cut short counts as none, and such a rest behind the first is ignored, as Kafka does.
    """
    size = _batch_size(records)
    if size is None:
        raise _invalid("a Produce must carry a record batch for each partition")
    batch = records[:size]
    if batch[MAGIC_AT] != MAGIC:
        raise _invalid(f"magic {batch[MAGIC_AT]} is no longer written")
    if size < HEADER_SIZE:
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes has no header")
    if not zstd_allowed and read_header(batch).compression == compression.ZSTD:
        raise AppendError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Produce requests before version 7 know no zstd")
    if _batch_size(records[size:]) is not None:
        raise _invalid("a Produce may carry one record batch for each partition only")
    return batch


def _batch_size(data: memoryview) -> int | None:
    """The size of the batch that begins here; None where there is not a whole one."""
    if len(data) < BEFORE_LENGTH_COUNTS:
        return None
    length = int.from_bytes(data[8:BEFORE_LENGTH_COUNTS], "big", signed=True)
    if length < _SMALLEST_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})"
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, message, message=message)
    if len(data) < _BEFORE_RECORDS_COUNT:
        return None
    if data[MAGIC_AT] > MAGIC:
        signed = data[MAGIC_AT] - 256 if data[MAGIC_AT] > 127 else data[MAGIC_AT]
        message = f"Invalid magic found in record: {signed}"
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, message, message=message)
    size = BEFORE_LENGTH_COUNTS + length
    return size if size <= len(data) else None


def check_header(header: BatchHeader, config: TopicConfig) -> None:
    """What the header alone says of its batch. Raises `AppendError`."""
    codec = header.attributes & COMPRESSION_MASK
    if codec > compression.ZSTD:
        raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no codec {codec}")
    count = header.records_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise _invalid(f"{count} records do not fit a last offset delta of {header.last_offset_delta}")
    if header.attributes & CONTROL:
        raise _invalid("clients do not write control records")
    if header.producer_id != -1 and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent no sequence")
    if codec or count * compression.SMALLEST_RECORD > header.size - HEADER_SIZE:
        check_room_for_records(header, config)


def _opened(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    partition_name: str,
    now_ms: int,
    spent: Spent,
    *,
    at_once: bool = True,
) -> Steps[CheckedBatch]:
    max_timestamp = yield from read_batch(
        batch, header, config, partition_name=partition_name, now_ms=now_ms, spent=spent, at_once=at_once
    )
    if config.log_append_time:
        max_timestamp = now_ms
    return (yield from _rewritten(batch, header, config, max_timestamp, now_ms))


def _rewritten(
    batch: memoryview, header: BatchHeader, config: TopicConfig, max_timestamp: int, now_ms: int
) -> Steps[CheckedBatch]:
    append, header = yield from rewrite(batch, header, config, max_timestamp)
    if len(append) > config.max_message_bytes:
        raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(append)} bytes once recompressed")
    return _fitting(append, header, config, now_ms)


def _fitting(batch: Buffer, header: BatchHeader, config: TopicConfig, now_ms: int) -> CheckedBatch:
    if len(batch) > config.log.segment_bytes:
        raise AppendError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(batch)} bytes do not fit into a segment")
    return CheckedBatch(header, batch, now_ms if config.log_append_time else -1, config)


def _invalid(reason: str, log_start_offset: int = -1) -> AppendError:
    return AppendError(ErrorCode.INVALID_RECORD, reason, log_start_offset=log_start_offset)
