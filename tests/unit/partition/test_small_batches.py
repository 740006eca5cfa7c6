"""A small compressed batch is opened at once, in memory that is used again: the same is said of it as in steps."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.topic_config import RecordChecks, TopicConfig
from broker.partitions.append import CheckedBatch, check_batch, check_small, checking, must_open
from broker.partitions.errors import AppendError
from broker.partitions.opening import BatchOpener
from broker.process.environment import RealEnvironment
from broker.process.time_slice import TimeSlice
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, read_header
from protocol.records.record import NewRecord, build_batch
from storage.log import LogConfig
from storage.steps import INLINE_BYTES, Steps, T, finish, never
from tests.unit.partition.rig import NOW_MS, Rig, plain
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


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"attributes": CONTROL | compression.LZ4}, ErrorCode.INVALID_RECORD),
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 10}, ErrorCode.INVALID_RECORD),
        ({"records_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"records_count": 1 << 20, "last_offset_delta": (1 << 20) - 1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_a_header_says_is_looked_at_on_every_way(fields: dict[str, int], code: ErrorCode) -> None:
    """At once, in the room for small ones, and in steps beside the loop: 12 records of a codec."""
    whole = build_batch([NewRecord(b"v", b"k", NOW_MS)] * 12, compression=compression.LZ4)
    batch = changed(whole, **fields)
    alike = in_steps(batch, TopicConfig())
    assert alike[0] is code
    assert at_once(batch, TopicConfig(), bytearray(INLINE_BYTES)) == alike
    with pytest.raises(AppendError) as refused:
        finish(
            checking(
                memoryview(batch),
                TopicConfig(),
                "t-0",
                now_ms=NOW_MS,
                zstd_allowed=True,
                log_start_offset=4,
                spent=never,
            )
        )
    assert said(refused.value) == alike


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


HOUR_MS = 3_600_000
ALL, HEADER_ONLY = (TopicConfig(record_checks=checks) for checks in (RecordChecks.ALL, RecordChecks.HEADER))
APPEND_TIME, COMPACTED = TopicConfig(log_append_time=True), TopicConfig(log=LogConfig(cleanup_compact=True))


@pytest.mark.parametrize(
    ("config", "codec", "count", "timestamp_ms", "opened"),
    [
        (TopicConfig(), 0, 9, NOW_MS + HOUR_MS, False),
        (TopicConfig(), 0, 1, NOW_MS + HOUR_MS + 1, True),
        (TopicConfig(), 4, 1, NOW_MS, True),
        (HEADER_ONLY, 0, 9, NOW_MS + HOUR_MS, False),
        (HEADER_ONLY, 4, 9, NOW_MS + HOUR_MS, False),
        (HEADER_ONLY, 4, 9, NOW_MS + HOUR_MS + 1, True),
        (ALL, 0, 8, NOW_MS + HOUR_MS, False),
        (ALL, 0, 8, NOW_MS + HOUR_MS + 1, True),
        (ALL, 0, 9, NOW_MS, True),
        (ALL, 4, 1, NOW_MS, True),
        (COMPACTED, 0, 1, NOW_MS, True),
        (TopicConfig(timestamp_before_max_ms=HOUR_MS), 0, 1, NOW_MS, True),
        (TopicConfig(compression_type="lz4"), 0, 1, NOW_MS, True),
        (APPEND_TIME, 0, 9, NOW_MS + 2 * HOUR_MS, False),
        (APPEND_TIME, 4, 1, NOW_MS, True),
    ],
)
def test_what_is_opened_before_it_is_appended(
    config: TopicConfig, codec: int, count: int, timestamp_ms: int, opened: bool
) -> None:
    """Nothing of which the header, the checksum and a few records say all there is to be known."""
    batch = build_batch([NewRecord(b"v", b"k", timestamp_ms)] * count, compression=codec)
    header = read_header(batch)
    assert must_open(header, config, NOW_MS) is opened
    claims = header._replace(attributes=header.attributes | LOG_APPEND_TIME)
    assert must_open(claims, config, NOW_MS) is (opened or config is APPEND_TIME)


@pytest.mark.parametrize(("delta_ms", "opened"), [(0, True), (HOUR_MS, True), (HOUR_MS + 1, False)])
def test_a_batch_of_now_is_opened_at_once(delta_ms: int, opened: bool) -> None:
    rig, now_ms = Rig(), NOW_MS - delta_ms
    batch = memoryview(build_batch([NewRecord(b"v", b"k", NOW_MS)], compression=compression.LZ4))
    header = read_header(batch)
    opener = BatchOpener(RealEnvironment(None))
    found = opener.open_small(rig.partition, batch, header, now_ms=now_ms, zstd_allowed=True)
    assert (None if not isinstance(found, CheckedBatch) else found.header) == (header if opened else None)


def test_a_small_batch_waits_for_nobody_while_there_is_time() -> None:
    rig = Rig()
    batch = memoryview(build_batch([NewRecord(b"v", b"k", NOW_MS)], compression=compression.LZ4))
    opener = BatchOpener(RealEnvironment(None))
    setattr(opener, "open_large", None)  # noqa: B010  it is a method
    opening = opener.open(
        rig.partition, batch, read_header(batch), now_ms=NOW_MS, zstd_allowed=True, slice_=TimeSlice(lambda: 0.0)
    )
    with pytest.raises(StopIteration) as ended:
        opening.send(None)
    assert isinstance(ended.value.value, CheckedBatch)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize(
    ("claimed", "extra", "refused"), [(7, b"", True), (8, b"", True), (8, b"\0", True), (9, b"", False)]
)
def test_of_a_few_records_each_is_counted(codec: int, claimed: int, extra: bytes, refused: bool) -> None:
    """And the last has to end where the batch does (decision 0014). Of more, where all are looked at."""
    whole = plain(*[bytes(8)] * (claimed + (not extra)))
    body = whole[HEADER_SIZE:] + extra
    packed = compression.compress(codec, body) if codec else body
    batch = changed(whole, body=packed, attributes=codec, records_count=claimed, last_offset_delta=claimed - 1)
    found = [in_steps(batch, TopicConfig())]
    if codec:
        found.append(at_once(batch, TopicConfig(), bytearray(INLINE_BYTES)) or ())
    expected = ErrorCode.INVALID_RECORD if refused else read_header(batch)
    assert [one[0] for one in found] == [expected] * len(found)
    assert in_steps(batch, ALL)[0] is ErrorCode.INVALID_RECORD
    assert in_steps(batch, HEADER_ONLY)[0] == read_header(batch)


PACKED = build_batch([NewRecord(b"v", b"k", NOW_MS)], compression=compression.ZSTD)


@pytest.mark.parametrize(
    ("batch", "zstd_allowed", "code"),
    [
        (PACKED, True, None),
        (PACKED, False, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (PACKED + b"rest", True, None),
        (PACKED + PACKED, True, ErrorCode.INVALID_RECORD),
        (changed(PACKED, magic=1), True, ErrorCode.INVALID_RECORD),
        (PACKED[:-1], True, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_header_that_is_known_is_believed_of_its_own_batch_alone(
    batch: bytes, zstd_allowed: bool, code: ErrorCode | None
) -> None:
    """The request may have more behind it, or an older format, or a codec that its version does not know."""
    header, records, config, room = read_header(batch), memoryview(batch), TopicConfig(), bytearray(INLINE_BYTES)

    def in_steps() -> CheckedBatch:
        return check_batch(records, config, "t-0", header, now_ms=NOW_MS, zstd_allowed=zstd_allowed, log_start_offset=4)

    def at_once() -> CheckedBatch | None:
        return check_small(
            records, config, room, now_ms=NOW_MS, zstd_allowed=zstd_allowed, log_start_offset=4, header=header
        )

    for check in (in_steps, at_once):
        if code is None:
            found = check()
            assert found is not None and bytes(found.batch) == PACKED
        else:
            with pytest.raises(AppendError) as refused:
                check()
            assert refused.value.code is code


@pytest.mark.parametrize("spent", [False, True])
def test_what_is_opened_in_steps_is_the_same(spent: bool) -> None:
    """It gives way before it looks at anything, where no time is left."""
    good = build_batch([NewRecord(b"v", b"k", NOW_MS)] * 2, compression=compression.LZ4)
    for batch in (good, changed(good, records_count=1, last_offset_delta=0), changed(good, attributes=5), b"rubbish"):
        steps = checking(
            memoryview(batch),
            TopicConfig(),
            "t-0",
            now_ms=NOW_MS,
            zstd_allowed=True,
            log_start_offset=4,
            spent=lambda: spent,
        )
        if spent:
            assert next(steps) is None
        found: CheckedBatch | AppendError
        try:
            found = finish(steps) if spent else only_result_of(steps)
        except AppendError as refused:
            found = refused
        assert said(found) == in_steps(batch, TopicConfig())


def only_result_of(steps: Steps[T]) -> T:
    """Of steps that give way to nobody."""
    with pytest.raises(StopIteration) as ended:
        next(steps)
    result: T = ended.value.value
    return result


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("more", [0, 1])
def test_claims_are_held_to_what_there_is_room_for(codec: int, more: int) -> None:
    """Seven bytes are the smallest record; what is compressed may come to as much as is allowed."""
    limit = 1 << 20 if codec else 14
    claimed = limit // 7 + more
    body = compression.compress(codec, bytes(14)) if codec else bytes(14)
    batch = changed(plain(), body=body, attributes=codec, records_count=claimed, last_offset_delta=claimed - 1)
    config = TopicConfig(
        record_checks=RecordChecks.HEADER,
        log=LogConfig(decompression=compression.Bounds(max_bytes=1 << 20, max_ratio=1)),
    )
    assert in_steps(batch, config)[0] == (ErrorCode.INVALID_RECORD if more else read_header(batch))


@pytest.mark.parametrize("codec", [0, 4])
def test_what_is_left_behind_the_last_record_is_counted(codec: int) -> None:
    whole = plain(b"v", b"w")
    body = whole[HEADER_SIZE:] + bytes(5)
    packed = compression.compress(codec, body) if codec else body
    batch = changed(whole, body=packed, attributes=codec)
    reason = "5 bytes behind the last record"
    with pytest.raises(AppendError, match="there is more in the batch" if not codec else reason):
        Rig().produce(batch)
    with pytest.raises(AppendError, match="there is more in the batch" if not codec else reason):
        Rig(config=ALL).produce(batch)
    many = changed(plain(*[b"v"] * 9), body=plain(*[b"v"] * 9)[HEADER_SIZE:] + bytes(5))
    with pytest.raises(AppendError, match=reason):
        Rig(config=ALL).produce(many)
    room = bytearray(INLINE_BYTES)
    if codec:
        with pytest.raises(AppendError, match=reason):
            check_small(memoryview(batch), TopicConfig(), room, now_ms=NOW_MS, zstd_allowed=True, log_start_offset=0)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused_by_the_header_alone(codec: int) -> None:
    assert in_steps(changed(plain(), attributes=codec), HEADER_ONLY) == (ErrorCode.UNKNOWN_SERVER_ERROR, None, 4)


def test_a_compacted_topic_that_gives_its_own_time_reads_records_for_their_keys() -> None:
    config = TopicConfig(log_append_time=True, log=LogConfig(cleanup_compact=True))
    rig = Rig(config=config)
    assert rig.produce(plain(b"v", key=b"k", timestamp_ms=5)).log_append_time_ms == NOW_MS
    assert rig.error_of(plain(b"v", timestamp_ms=5)) is ErrorCode.INVALID_RECORD
