"""A small compressed batch is opened at once, in memory that is used again: the same is said of it as in steps."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.topic_config import RecordChecks, TopicConfig
from broker.partitions.append import CheckedBatch, check_batch, check_small, must_open
from broker.partitions.errors import AppendError
from broker.partitions.opening import BatchOpener
from broker.process.environment import RealEnvironment
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import HEADER_SIZE, read_header
from protocol.records.record import NewRecord, build_batch
from storage.log import LogConfig
from storage.steps import INLINE_BYTES
from tests.unit.partition.rig import NOW_MS, Rig
from tests.unit.partition.test_append_checks import changed

BOUNDED = TopicConfig(log=LogConfig(decompression=compression.Bounds(max_bytes=2_000, max_ratio=1)))
Said = tuple[object, ...]


def said(found: CheckedBatch | AppendError) -> Said:
    if isinstance(found, AppendError):
        return found.code, found.message, found.log_start_offset
    return found.header, bytes(found.batch), found.log_append_time_ms, found.config


def in_steps(batch: bytes, config: TopicConfig) -> Said:
    try:
        return said(check_batch(memoryview(batch), config, "t-0", now_ms=NOW_MS, zstd_allowed=True, log_start_offset=4))
    except AppendError as refused:
        return said(refused)


def at_once(batch: bytes, config: TopicConfig, room: bytearray) -> Said | None:
    try:
        found = check_small(memoryview(batch), config, room, now_ms=NOW_MS, zstd_allowed=True, log_start_offset=4)
    except AppendError as refused:
        return said(refused)
    return None if found is None else said(found)


@given(
    codec=st.integers(1, 4),
    value=st.binary(max_size=300) | st.integers(1, 3_000).map(bytes),
    count=st.integers(1, 12),
    claimed=st.integers(-1, 2),
    cut=st.integers(0, 3),
    behind=st.binary(max_size=4),
    flipped=st.none() | st.integers(0, 40),
    config=st.sampled_from([TopicConfig(), BOUNDED]),
)
def test_small_batches_are_checked_alike_at_once_and_in_steps(
    codec: int,
    value: bytes,
    count: int,
    claimed: int,
    cut: int,
    behind: bytes,
    flipped: int | None,
    config: TopicConfig,
) -> None:
    """Whole and damaged ones, of the right and of a wrong count of records; the room holds what was there before."""
    whole = build_batch([NewRecord(value, b"k", NOW_MS)] * count, compression=codec)
    body = bytearray(whole[HEADER_SIZE : len(whole) - cut]) + behind
    if flipped is not None:
        body[flipped % len(body)] ^= 0x21
    records = max(1, count + claimed)
    batch = changed(whole, body=bytes(body), records_count=records, last_offset_delta=records - 1)
    room = bytearray(b"\x10" * min(INLINE_BYTES, config.log.decompression.max_bytes))
    assert at_once(batch, config, room) == in_steps(batch, config)


@pytest.mark.parametrize("codec", range(1, 5), ids=compression.NAMES[1:])
def test_batches_too_large_for_the_room_are_left(codec: int) -> None:
    just, more = (build_batch([NewRecord(bytes(size), b"k", NOW_MS)], compression=codec) for size in (900, 1_100))
    room = bytearray(1_000)
    assert at_once(just, TopicConfig(), room) == in_steps(just, TopicConfig())
    assert at_once(more, TopicConfig(), room) is None
    exact, narrow = (
        TopicConfig(log=LogConfig(decompression=compression.Bounds(max_bytes=most))) for most in (1_000, 999)
    )
    refused = at_once(more, exact, room)
    assert refused == in_steps(more, exact) and refused[0] is ErrorCode.MESSAGE_TOO_LARGE
    assert at_once(just, narrow, room) is None


@pytest.mark.parametrize(
    ("config", "timestamp_ms"),
    [
        (TopicConfig(log=LogConfig(cleanup_compact=True)), NOW_MS),
        (TopicConfig(record_checks=RecordChecks.ALL), NOW_MS),
        (TopicConfig(compression_type="gzip"), NOW_MS),
        (TopicConfig(log_append_time=True), NOW_MS),
        (TopicConfig(timestamp_before_max_ms=5), NOW_MS),
        (TopicConfig(), NOW_MS + (1 << 40)),
    ],
)
def test_where_every_record_is_read_nothing_is_opened_at_once(config: TopicConfig, timestamp_ms: int) -> None:
    rig = Rig(config=config)
    batch = memoryview(build_batch([NewRecord(b"v", b"k", timestamp_ms)] * 9, compression=compression.LZ4))
    environment, header = RealEnvironment(None), read_header(batch)
    opener = BatchOpener(environment)

    async def both() -> tuple[object, object]:
        opened = opener.open_small(rig.partition, batch, header, now_ms=NOW_MS, zstd_allowed=True)
        slice_ = environment.time_slice()
        return opened, await opener.open(rig.partition, batch, header, now_ms=NOW_MS, zstd_allowed=True, slice_=slice_)

    assert must_open(header, config, NOW_MS)
    opened, later = asyncio.run(both())
    assert opened is None
    assert isinstance(later, AppendError if timestamp_ms > NOW_MS else CheckedBatch)
