"""What a Produce may bring, and how Kafka 4.3.1 refuses the rest (compared with a running one). Cites I35, I22."""

import gzip
import struct
from dataclasses import replace

import pytest

from broker.config.topic_config import RecordChecks, TopicConfig
from broker.partitions.append import Appended
from broker.partitions.errors import AppendError, RecordError
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import HEADER, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, check_crc, read_header, seal
from protocol.records.record import NewRecord, build_batch, records_of
from storage.log import LogConfig
from tests.unit.partition.rig import NOW_MS, Rig, idempotent, in_transaction, plain

COMPACTED = TopicConfig(log=LogConfig(cleanup_compact=True))
HOUR_MS = 3_600_000


def changed(batch: bytes, *, body: bytes | None = None, **fields: int) -> bytes:
    """A batch with other header fields, and a checksum that is right all the same."""
    header: BatchHeader = read_header(batch)._replace(**fields)
    out = bytearray(HEADER.pack(*header)) + (batch[HEADER_SIZE:] if body is None else body)
    seal(out)
    return bytes(out)


def sized(left: int, length: int, magic: int = 2) -> bytes:
    """What begins as a batch that claims to be so long, and has so many bytes behind its length."""
    data = bytearray(8) + struct.pack(">i", length) + bytes(left)
    if left > 4:
        data[16] = magic
    return bytes(data)


def refusal(rig: Rig, batch: bytes) -> AppendError:
    with pytest.raises(AppendError) as caught:
        rig.produce(batch)
    return caught.value


@pytest.mark.parametrize(
    ("batch", "code", "log_start_offset"),
    [
        (b"", ErrorCode.INVALID_RECORD, -1),
        (bytes(10), ErrorCode.INVALID_RECORD, -1),
        (changed(plain(), magic=0), ErrorCode.INVALID_RECORD, -1),
        (changed(plain(), magic=1), ErrorCode.INVALID_RECORD, -1),
        (changed(plain(), magic=3), ErrorCode.CORRUPT_MESSAGE, -1),
        (plain() + plain(), ErrorCode.INVALID_RECORD, -1),
        (plain()[:-1], ErrorCode.INVALID_RECORD, -1),
        (changed(plain(), base_offset=5), ErrorCode.INVALID_RECORD, 0),
        (plain()[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(plain(), last_offset_delta=3), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), last_offset_delta=-1), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), records_count=0), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), records_count=-1), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), attributes=0x20), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD, 0),
        (changed(plain(), attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR, 0),
        (in_transaction(5, 0, 0), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1),
    ],
)
def test_an_unsound_batch_is_refused_as_kafka_does(batch: bytes, code: ErrorCode, log_start_offset: int) -> None:
    """I35: base offset, count, magic, checksum, control bit; and nothing has happened."""
    rig = Rig()
    assert rig.error_of(batch) is code
    refused = refusal(rig, batch)
    assert (refused.log_start_offset, refused.record_errors) == (log_start_offset, ())


@pytest.mark.parametrize("rest", [b"\x01" * 10, b"\x01" * 30])
def test_a_rest_that_is_no_batch_is_dropped(rest: bytes) -> None:
    rig = Rig()
    rig.produce(plain() + rest)
    assert rig.log.size_bytes == len(plain())


@pytest.mark.parametrize("length", [10, -5])
def test_a_length_that_cannot_be_one_is_named(length: int) -> None:
    damaged = bytearray(plain())
    struct.pack_into(">i", damaged, 8, length)
    refused = refusal(Rig(), bytes(damaged))
    assert refused.code is ErrorCode.CORRUPT_MESSAGE
    assert refused.message == f"Record size {length} is less than the minimum record overhead (14)"


def test_a_non_transactional_write_within_a_transaction_is_refused() -> None:
    """I35: 48 for a plain batch of a producer whose transaction is open here; a wrong sequence is heard of first."""
    rig = Rig()
    rig.transact(in_transaction(5, 0, 0))
    assert rig.error_of(idempotent(5, 0, 1)) is ErrorCode.INVALID_TXN_STATE
    assert rig.error_of(idempotent(5, 0, 7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_size_limits() -> None:
    """The limit itself is allowed, of what comes and of what is stored."""
    data = plain(b"v" * 100)
    for size, room in ((len(data), True), (len(data) - 1, False)):
        for config, code in (
            (TopicConfig(max_message_bytes=size), ErrorCode.MESSAGE_TOO_LARGE),
            (TopicConfig(log=LogConfig(segment_bytes=size)), ErrorCode.RECORD_LIST_TOO_LARGE),
            (TopicConfig(max_message_bytes=size, compression_type="uncompressed"), ErrorCode.MESSAGE_TOO_LARGE),
        ):
            rig = Rig(config=config)
            coded = build_batch([NewRecord(b"v" * 100, None, NOW_MS)], compression=compression.GZIP)
            batch = coded if config.recompresses else data
            assert len(coded) < size
            if room:
                rig.produce(batch)
                assert rig.log.size_bytes == len(data)
            else:
                assert rig.error_of(batch) is code
                assert refusal(rig, batch).log_start_offset == -1


def test_a_coordinator_is_held_to_the_size_of_its_topic() -> None:
    data = plain(b"v" * 100)
    rig = Rig(config=TopicConfig(max_message_bytes=len(data)))
    assert (rig.partition.append_records(data, now_ms=NOW_MS), rig.written) == (0, 1)
    with pytest.raises(AppendError) as caught:
        rig.partition.append_records(plain(b"v" * 101), now_ms=NOW_MS)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (rig.partition.end_offset, rig.written) == (1, 1)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (plain()[:11], ErrorCode.INVALID_RECORD),
        (sized(4, 13), ErrorCode.CORRUPT_MESSAGE),
        (sized(4, 14), ErrorCode.INVALID_RECORD),
        (sized(5, 15), ErrorCode.INVALID_RECORD),
        (sized(14, 14), ErrorCode.CORRUPT_MESSAGE),
        (sized(48, 48), ErrorCode.CORRUPT_MESSAGE),
        (changed(plain(), body=b""), ErrorCode.INVALID_RECORD),
        (sized(4, 14, magic=3), ErrorCode.INVALID_RECORD),
        (sized(5, 14, magic=3), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_too_short_for_a_header_is_no_batch(data: bytes, code: ErrorCode) -> None:
    """12 bytes tell how long it is, the 17th its format, and 61 are a header."""
    assert Rig().error_of(data) is code


@pytest.mark.parametrize(("magic", "named"), [(3, 3), (127, 127), (128, -128), (255, -1)])
def test_a_format_that_nobody_knows_is_named(magic: int, named: int) -> None:
    assert refusal(Rig(), sized(60, 60, magic=magic)).message == f"Invalid magic found in record: {named}"


@pytest.mark.parametrize("many", [1, 7])
def test_a_refusal_tells_where_the_log_begins(many: int) -> None:
    """But for what Kafka refuses before it asks the log."""
    rig = Rig()
    for _ in range(3):
        rig.produce(plain())
    rig.flush()
    rig.partition.delete_records(2)
    packed = build_batch([NewRecord(b"v", b"k", NOW_MS)] * many, compression=compression.LZ4)
    assert refusal(rig, changed(packed, base_offset=1)).log_start_offset == 2
    assert refusal(rig, changed(packed, records_count=many + 1)).log_start_offset == 2
    assert refusal(rig, changed(packed, body=b"no lz4")).log_start_offset == 2
    assert refusal(rig, packed + packed).log_start_offset == -1
    assert rig.produce(plain()).log_start_offset == 2
    assert [rig.produce(idempotent(5, 0, 0)) for _ in range(2)][1] == Appended(4, 4, NOW_MS, 2, duplicate=True)


def test_zstd_needs_a_produce_that_knows_it() -> None:
    rig = Rig()
    batch = memoryview(build_batch([NewRecord(b"v")], compression=compression.ZSTD))
    with pytest.raises(AppendError) as caught:
        rig.partition.append(batch, transactional_id=None, now_ms=NOW_MS, zstd_allowed=False)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    rig.partition.append(batch, transactional_id=None, now_ms=NOW_MS)


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP, compression.SNAPPY, compression.ZSTD])
def test_a_compacted_topic_wants_keys_and_names_every_record_without(codec: int) -> None:
    records = [NewRecord(b"v", b"k", NOW_MS), *[NewRecord(b"v", None, NOW_MS) for _ in range(4)]]
    refused = refusal(rig := Rig(config=COMPACTED), build_batch(records, compression=codec))
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert refused.code is ErrorCode.INVALID_RECORD
    assert refused.record_errors == tuple(RecordError(index, text) for index in (1, 2, 3, 4))
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 2, 3))
    assert refused.message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [{shown}]"
    )
    rig.produce(build_batch(records[:1], compression=codec))


def test_where_we_look_records_must_add_up() -> None:
    """Where all records are read, and where there are few; in others the header is believed (decision 0014)."""
    lying = changed(plain(b"v" * 20, key=b"k"), records_count=2, last_offset_delta=1)
    many = changed(plain(*[b"v"] * 100, key=b"k"), records_count=101, last_offset_delta=100)
    everything = TopicConfig(record_checks=RecordChecks.ALL)
    assert [Rig(config=config).error_of(lying) for config in (None, everything, COMPACTED)] == [87, 87, 87]
    assert [Rig(config=config).error_of(many) for config in (everything, COMPACTED)] == [87, 87]
    Rig().produce(many)
    Rig(config=TopicConfig(record_checks=RecordChecks.HEADER)).produce(lying)


@pytest.mark.parametrize("codec", range(5), ids=compression.NAMES)
@pytest.mark.parametrize("claimed", [2_000, 1 << 20, (1 << 31) - 1])
def test_no_batch_claims_more_offsets_than_it_can_have_records(codec: int, claimed: int) -> None:
    """Whatever is looked at otherwise: each such batch would make a segment."""
    header_only = TopicConfig(
        record_checks=RecordChecks.HEADER,
        log=LogConfig(decompression=compression.Bounds(max_bytes=1 << 20, max_ratio=1)),
    )
    lying = changed(build_batch([NewRecord(b"v")], compression=codec), records_count=claimed)
    lying = changed(lying, last_offset_delta=claimed - 1)
    codes = [Rig(config=config).error_of(lying) for config in (None, COMPACTED)]
    assert codes == [ErrorCode.INVALID_RECORD] * 2
    if claimed > (1 << 20) // 7 or not codec:
        assert Rig(config=header_only).error_of(lying) is ErrorCode.INVALID_RECORD


def body_of_two(first: int = 0) -> bytes:
    """Two records, as they lie in an uncompressed batch; their offsets begin at `first`."""
    body = bytearray(plain(b"a", b"b", key=b"k")[HEADER_SIZE:])
    size = len(body) // 2
    body[3], body[size + 3] = first * 2, first * 2 + 2
    return bytes(body)


def compressed(codec: int, body: bytes, count: int) -> bytes:
    packed = compression.compress(codec, body)
    return changed(plain(), body=packed, attributes=codec, records_count=count, last_offset_delta=count - 1)


@pytest.mark.parametrize("codec", range(1, 5), ids=compression.NAMES[1:])
@pytest.mark.parametrize("config", [TopicConfig(), COMPACTED], ids=["any topic", "compacted"])
def test_compressed_batches_are_opened_once(codec: int, config: TopicConfig) -> None:
    """87 for a count that is not that of the records, -1 for what cannot be decompressed: Kafka's codes."""
    rig = Rig(config=config)
    fields = {"attributes": codec, "records_count": 1}
    assert rig.error_of(changed(plain(), body=b"this was never compressed", **fields)) == -1
    assert rig.error_of(changed(plain(), body=b"", **fields)) == (87 if codec == compression.ZSTD else -1)
    assert rig.error_of(changed(plain(), body=compression.compress(codec, bytes(900))[:-3], **fields)) == -1
    assert rig.error_of(compressed(codec, body_of_two(), 3)) == 87
    assert rig.error_of(compressed(codec, body_of_two(), 1)) == 87
    assert rig.error_of(compressed(codec, b"\x20" + bytes(5), 1)) == 87
    rig.produce(compressed(codec, body_of_two(), 2))
    if config is COMPACTED:
        assert rig.error_of(compressed(codec, body_of_two(1), 2)) == -1
        rig.produce(changed(plain(), body=body_of_two(1), records_count=2, last_offset_delta=1))


def test_what_grows_too_much_is_too_large() -> None:
    """Kafka has no such bound. A producer that hears this code splits its batch."""
    bounds = compression.Bounds(max_bytes=1 << 20, max_ratio=1_000)
    rig = Rig(config=TopicConfig(log=LogConfig(decompression=bounds)))
    records = [NewRecord(bytes(1 << 20), b"k", NOW_MS)] * 2
    assert rig.error_of(build_batch(records, compression=compression.ZSTD)) is ErrorCode.MESSAGE_TOO_LARGE
    rig.produce(build_batch([NewRecord(bytes(1 << 19), b"k", NOW_MS)], compression=compression.ZSTD))


def test_records_from_the_future_are_refused_with_their_time() -> None:
    rig = Rig()
    late = NOW_MS + 2 * HOUR_MS
    batch = build_batch([NewRecord(b"v", b"k", NOW_MS), NewRecord(b"v", b"k", late)])
    refused = refusal(rig, batch)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert refused.message == "One or more records have been rejected due to invalid timestamp"
    assert refused.record_errors == (
        RecordError(
            1,
            f"Timestamp {late} of message with offset 1 is out of range. The timestamp should be within "
            f"[{NOW_MS - (1 << 63) + 1}, {NOW_MS + HOUR_MS}]",
        ),
    )


def test_a_header_that_claims_the_future_is_corrected() -> None:
    """Kafka takes such a batch; the maximum it stores is that of the records, or retention would never end."""
    rig = Rig()
    rig.produce(changed(plain(), max_timestamp=NOW_MS + 2 * HOUR_MS))
    stored = rig.log.read(0, 1000, end_offset=1)[0]
    header = read_header(stored)
    assert header.max_timestamp == NOW_MS and check_crc(stored, 0, header)


def test_records_too_old_for_the_topic_are_refused() -> None:
    rig = Rig(config=TopicConfig(timestamp_before_max_ms=1000))
    assert rig.error_of(plain(timestamp_ms=NOW_MS - 1001)) is ErrorCode.INVALID_TIMESTAMP
    assert rig.error_of(plain(timestamp_ms=NOW_MS + HOUR_MS + 1)) is ErrorCode.INVALID_TIMESTAMP
    rig.produce(plain(timestamp_ms=NOW_MS - 1000))
    rig.produce(plain(timestamp_ms=NOW_MS + HOUR_MS))
    rig.produce(plain(timestamp_ms=-1))


def test_a_thousand_faults_are_named_and_all_are_counted() -> None:
    records = [NewRecord(b"v", b"k", NOW_MS)] + [NewRecord(b"v", None, NOW_MS)] * 1_001
    refused = refusal(Rig(config=COMPACTED), build_batch(records))
    assert [error.batch_index for error in refused.record_errors] == list(range(1, 1_001))
    assert refused.message is not None and "rejected due to 1001 record errors in total" in refused.message


@pytest.mark.parametrize("codec", [compression.NONE, compression.LZ4])
def test_only_the_kind_of_its_timestamps_is_changed(codec: int) -> None:
    """A batch has a codec and a transaction besides."""
    batch = build_batch(
        [NewRecord(b"v", b"k", NOW_MS)] * 3,
        compression=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=4,
        transactional=True,
    )
    header = read_header(batch)
    to_append_time = Rig(config=TopicConfig(log_append_time=True))
    to_append_time.now_ms += 5
    assert to_append_time.transact(batch).log_append_time_ms == NOW_MS + 5
    to_create_time = Rig()
    to_create_time.now_ms += 5
    to_create_time.transact(changed(batch, attributes=header.attributes | LOG_APPEND_TIME))
    for rig, attributes, newest_ms in (
        (to_append_time, header.attributes | LOG_APPEND_TIME, NOW_MS + 5),
        (to_create_time, header.attributes, NOW_MS),
    ):
        stored = bytes(rig.log.read(0, 1000, end_offset=3)[0])
        found = read_header(stored)
        assert found == header._replace(attributes=attributes, max_timestamp=newest_ms, leader_epoch=1, crc=found.crc)
        assert check_crc(stored, 0, found)
        assert stored[HEADER_SIZE:] == batch[HEADER_SIZE:]


def test_log_append_time_is_the_brokers_and_in_the_checksum() -> None:
    rig = Rig(config=TopicConfig(log_append_time=True))
    appended = rig.produce(idempotent(7, 0, 0, timestamp_ms=5))
    assert appended.log_append_time_ms == NOW_MS
    stored = rig.log.read(0, 1000, end_offset=1)[0]
    header = read_header(stored)
    assert header.log_append_time and header.max_timestamp == NOW_MS and header.base_timestamp == 5
    assert check_crc(stored, 0, header)
    assert [record.timestamp_ms for record in records_of(stored)] == [NOW_MS]
    rig.now_ms += 1000
    repeated = rig.produce(idempotent(7, 0, 0, timestamp_ms=5))
    assert repeated.duplicate and repeated.log_append_time_ms == NOW_MS


def test_a_producer_does_not_choose_log_append_time() -> None:
    records = [NewRecord(b"v", None, NOW_MS), NewRecord(None, b"key", NOW_MS)]
    claims = changed(build_batch(records), attributes=LOG_APPEND_TIME)
    refused = refusal(Rig(config=TopicConfig(log_append_time=True)), claims)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.message for error in refused.record_errors] == [
        f"Invalid timestamp type in message DefaultRecord(offset={offset}, timestamp={NOW_MS}, {sizes}). "
        "Producer should not set timestamp type to LogAppendTime."
        for offset, sizes in enumerate(("key=0 bytes, value=1 bytes", "key=3 bytes, value=0 bytes"))
    ]
    rig = Rig()
    assert rig.produce(claims).log_append_time_ms == -1
    assert not read_header(rig.log.read(0, 1000, end_offset=2)[0]).log_append_time


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_codec_re_encodes(target: str) -> None:
    rig = Rig(config=TopicConfig(compression_type=target))
    for source in (compression.NONE, compression.GZIP):
        batch = idempotent(7 + source, 3, 0, 3)
        header = read_header(batch)
        body = gzip.compress(batch[HEADER_SIZE:]) if source else batch[HEADER_SIZE:]
        offset = rig.produce(changed(batch, body=body, attributes=source)).base_offset
        stored = rig.log.read(offset, 1 << 20, end_offset=offset + 3)[0]
        found = read_header(stored)
        assert compression.NAMES[found.compression] == ("none" if target == "uncompressed" else target)
        assert found[7:] == header[7:] and check_crc(stored, 0, found)
        assert [record.value for record in records_of(stored)] == [b"v"] * 3


def test_the_bytes_of_a_producer_are_not_touched() -> None:
    rig = Rig()
    batch = changed(idempotent(7, 0, 0), attributes=0x8000 - 0x10000)
    rig.produce(batch)
    stored = bytes(rig.log.read(0, 1000, end_offset=1)[0])
    assert stored[16:] == batch[16:]
    assert read_header(stored).leader_epoch == rig.partition.leader_epoch


def test_every_append_is_announced_once_and_moves_nothing() -> None:
    rig = Rig()
    rig.produce(plain())
    assert (rig.written, rig.partition.high_watermark, rig.partition.end_offset) == (1, 0, 1)
    rig.produce(idempotent(5, 0, 0))
    rig.produce(idempotent(5, 0, 0))
    assert rig.written == 2
    rig.end(5, 1, commit=True)
    assert (rig.written, rig.partition.high_watermark) == (3, 0)


def test_a_changed_configuration_takes_effect() -> None:
    rig = Rig()
    rig.partition.configure(replace(TopicConfig(), max_message_bytes=200))
    assert rig.error_of(plain(b"v" * 500)) is ErrorCode.MESSAGE_TOO_LARGE
