"""Record batches, records, markers and codecs."""

import struct

import cramjam
import pytest
from crc32c import crc32c

from protocol.records import compression
from protocol.records.batch import (
    HEADER_SIZE,
    CorruptRecords,
    check_crc,
    first_corrupt,
    headers_in,
    place,
    read_header,
    seal,
)
from protocol.records.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress
from protocol.records.control import EndTransaction, end_transaction_marker, read_end_transaction
from protocol.records.record import NewRecord, Record, TimestampType, build_batch, records_of
from tests.harness.refilling import refill_batch

COMMIT = (
    "000000000000000000000042ffffffff024025828b0030000000000000018bcfe568000000018bcfe568"
    "0000000000000000010002ffffffff000000012000000008000000010c00000000000300"
)
ABORT = (
    "000000000000000000000042ffffffff02b41b54c30030000000000000018bcfe568000000018bcfe568"
    "0000000000000000010002ffffffff000000012000000008000000000c00000000000300"
)
WRITTEN_BY_JAVA = {
    GZIP: (
        "00000000000000000000006b00000000027fdaa1000001000000010000018bcfe568000000018bcfe56807ffffffffffffffffff"
        "ffffffffff000000021f8b08000000000000ff9bc4c4c0c0c0969d5af981b12c31a7345581fe240b53069321531ea308031f1347"
        "7a7e5e2a230300abb251f996000000"
    ),
    SNAPPY: (
        "0000000000000000000000730000000002bfcceb160002000000010000018bcfe568000000018bcfe56807ffffffffffffffffff"
        "ffffffffff0000000282534e415050590000000001000000010000002e9601409202000000066b6579f00176616c756520fe0600"
        "c60600480402680231026e0114000e0208676f6e650100"
    ),
    LZ4: (
        "00000000000000000000006b00000000026ff009280003000000010000018bcfe568000000018bcfe56807ffffffffffffffffff"
        "ffffffffff0000000204224d186040822b000000ff029202000000066b6579f00176616c75652006005ff0040402680231026e01"
        "14000e0208676f6e65010000000000"
    ),
    ZSTD: (
        "0000000000000000000000690000000002a4af169e0004000000010000018bcfe568000000018bcfe56807ffffffffffffffffff"
        "ffffffffff0000000228b52ffd005864010044029202000000066b6579f00176616c7565200402680231026e0114000e0208676f"
        "6e65010001005fd2b204010000"
    ),
}
"""Two records as Apache Kafka 4.3.1 compressed them for topics with a `compression.type`."""
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


# Headers.


def test_the_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_offset_and_epoch_lie_outside_the_checksum() -> None:
    batch = bytearray(build_batch([NewRecord(b"v")]))
    place(batch, 1 << 40, 9)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 9)
    assert check_crc(batch, 0, header)
    batch[-1] ^= 1
    assert not check_crc(batch, 0, header)


def test_what_attributes_say() -> None:
    batch = build_batch(
        [NewRecord(b"v")], transactional=True, compression=ZSTD, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    header = read_header(batch)
    assert (header.compression, header.is_transactional, header.log_append_time) == (ZSTD, True, True)
    assert not (header.is_control or header.has_delete_horizon)


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(-1, 4, -1), (0, 4, 4), (0x7FFFFFFF, 0, 0x7FFFFFFF), (0x7FFFFFFE, 3, 1)]
)
def test_sequences_go_round_behind_the_largest(base: int, delta: int, last: int) -> None:
    header = read_header(build_batch([NewRecord(b"v")], base_sequence=base))
    assert header._replace(last_offset_delta=delta).last_sequence == last


@pytest.mark.parametrize("length", [0, 48, -1, -(1 << 31)])
def test_a_batch_shorter_than_its_header_is_corrupt(length: int) -> None:
    batch = bytearray(build_batch([NewRecord(b"v")]))
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptRecords):
        list(headers_in(batch))


def test_a_batch_needs_records() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


# Records.


@pytest.mark.parametrize("codec", CODECS[1:], ids=NAMES[1:])
def test_what_java_compressed_is_read(codec: int) -> None:
    batch = bytes.fromhex(WRITTEN_BY_JAVA[codec])
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.compression == codec
    assert list(records_of(batch)) == [
        Record(0, 1_700_000_000_000, b"key", b"value " * 20, (("h", b"1"), ("n", None))),
        Record(1, 1_700_000_000_007, b"gone", None, ()),
    ]


def test_append_time_is_the_time_of_every_record() -> None:
    records = [NewRecord(b"a", timestamp_ms=1), NewRecord(b"b", timestamp_ms=5)]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp_ms for record in records_of(batch)] == [5, 5]


def test_timestamps_may_go_back_within_a_batch() -> None:
    batch = build_batch([NewRecord(b"a", timestamp_ms=1000), NewRecord(b"b", timestamp_ms=1)])
    assert [record.timestamp_ms for record in records_of(batch)] == [1000, 1]
    assert read_header(batch).max_timestamp == 1000


def spoiled(**changes: int) -> bytes:
    """A sealed batch of three records with another header."""
    batch = bytearray(build_batch([NewRecord(b"value", key=b"key", headers=(("h", b"x"),))] * 3))
    if "count" in changes:
        struct.pack_into(">i", batch, 57, changes["count"])
    for at, value in ((int(name[1:]), value) for name, value in changes.items() if name != "count"):
        batch[HEADER_SIZE + at] = value
    seal(batch)
    return bytes(batch)


# A record here: 0 length, 1 attributes, 2 timestamp, 3 offset, 4 key length, 5-7 key, 8 value length, 9-13 value,
# 14 header count, 15 header key length, 16 header key, 17 header value length, 18 header value.
@pytest.mark.parametrize(
    "changes",
    [
        {"count": 2},
        {"count": 4},
        {"count": -1},
        {"count": 0x7FFFFFFF},
        {"_0": 1},
        {"_0": 0x7E},
        {"_0": 34},
        {"_4": 3},
        {"_4": 0x7E},
        {"_8": 0xFF},
        {"_14": 1},
        {"_14": 0x7E},
        {"_15": 1},
        {"_16": 0xFF},
    ],
    ids=str,
)
def test_records_that_do_not_add_up_are_corrupt(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptRecords):
        list(records_of(spoiled(**changes)))


def test_an_emptied_batch_keeps_its_offsets() -> None:
    header = read_header(build_batch([NewRecord(b"v" * 9)] * 4, base_offset=10, base_sequence=2, compression=LZ4))
    empty = refill_batch(header, [])
    after = read_header(empty)
    assert (len(empty), after.records_count, after.next_offset, after.last_sequence) == (HEADER_SIZE, 0, 14, 5)
    assert list(records_of(empty)) == []


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    """The records keep their own times (KIP-534)."""
    batch = build_batch([NewRecord(b"v", key=b"k", timestamp_ms=500)], base_offset=3)
    records = list(records_of(batch))
    refilled = refill_batch(read_header(batch), records, delete_horizon_ms=90_000)
    assert read_header(refilled).has_delete_horizon
    assert read_header(refilled).base_timestamp == 90_000
    assert list(records_of(refilled)) == records


# Markers.


@pytest.mark.parametrize(("commit", "golden"), [(True, COMMIT), (False, ABORT)])
def test_a_marker_is_written_as_kafka_writes_it(commit: bool, golden: str) -> None:
    """Golden vectors (I47)."""
    marker = end_transaction_marker(
        producer_id=1, producer_epoch=2, commit=commit, coordinator_epoch=3, timestamp_ms=1_700_000_000_000
    )
    assert marker.hex() == golden
    assert read_end_transaction(marker) == EndTransaction(commit=commit, coordinator_epoch=3)
    header = read_header(marker)
    assert header.is_control
    assert header.is_transactional
    assert (header.next_offset, header.base_sequence) == (1, -1)


def control(key: bytes | None, value: bytes | None) -> bytes:
    return build_batch([NewRecord(value, key=key)], control=True, transactional=True, producer_id=1, producer_epoch=0)


def test_a_marker_of_a_later_version_is_partly_read() -> None:
    marker = control(struct.pack(">hh", 1, 1) + b"more", struct.pack(">hi", 1, 8) + b"more")
    assert read_end_transaction(marker) == EndTransaction(commit=True, coordinator_epoch=8)


def test_other_control_records_end_no_transaction() -> None:
    assert read_end_transaction(control(struct.pack(">hh", 0, 2), b"")) is None
    assert read_end_transaction(build_batch([NewRecord(b"data")])) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x" * 6),
        (b"\x00\x00", b"x" * 6),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"x"),
        (b"\xff\xff\x00\x01", b"x" * 6),
    ],
)
def test_half_a_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecords):
        read_end_transaction(control(key, value))


# Codecs.


@pytest.mark.parametrize("codec", CODECS, ids=NAMES)
@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 1_000_000])
def test_what_is_compressed_comes_back(codec: int, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert decompress(codec, compress(codec, data)) == data


def test_snappy_without_framing_is_read_too() -> None:
    """librdkafka sends one bare block, Java the framing of snappy-java."""
    data = b"bare block " * 100
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    assert compress(SNAPPY, data).startswith(b"\x82SNAPPY\x00")


def test_lz4_frames_have_independent_blocks() -> None:
    """Java's reader refuses linked ones; the flag is bit 5 of the fifth byte."""
    assert compress(LZ4, b"x" * 100_000)[4] & 0x20


@pytest.mark.parametrize("codec", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_several_members_are_one_stream(codec: int) -> None:
    members = compress(codec, b"first ") + compress(codec, b"second")
    assert decompress(codec, members) == b"first second"


@pytest.mark.parametrize("codec", CODECS[1:], ids=NAMES[1:])
def test_records_larger_than_the_limit_are_corrupt(codec: int) -> None:
    """A few kilobytes may stand for gigabytes: only as much memory as allowed is ever used. Also holds the library to
    the words by which a full buffer is recognised: with them unrecognised, what fits could not be read, either."""
    bomb = compress(codec, bytes(3 << 20))
    assert len(decompress(codec, bomb, limit=3 << 20)) == 3 << 20
    with pytest.raises(CorruptRecords, match="come to more"):
        decompress(codec, bomb, limit=1 << 20)


@pytest.mark.parametrize("codec", CODECS[1:], ids=NAMES[1:])
@pytest.mark.parametrize("spoil", [lambda d: d[:-1], lambda d: b"", lambda d: b"\x00" * len(d), lambda d: d[:20]])
def test_what_is_not_compressed_data_is_corrupt(codec: int, spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(CorruptRecords):
        decompress(codec, spoil(compress(codec, bytes(range(256)) * 50)))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecords):
        decompress(codec, b"x")
    with pytest.raises(ValueError, match="no codec"):
        compress(codec, b"x")


@pytest.mark.parametrize("length", [-1, 1 << 30])
def test_an_impossible_snappy_block_is_corrupt(length: int) -> None:
    stream = compress(SNAPPY, b"")
    with pytest.raises(CorruptRecords, match="block length"):
        decompress(SNAPPY, stream + struct.pack(">i", length))


def test_names_are_those_of_compression_type() -> None:
    assert NAMES[compression.ZSTD] == "zstd"


def test_the_first_corrupt_batch_is_found() -> None:
    batches = [build_batch([NewRecord(value=bytes([number]) * 20)]) for number in range(3)]
    whole = b"".join(batches)
    size = len(batches[0])
    assert first_corrupt(whole) is None
    assert first_corrupt(whole + batches[0][:70]) is None, "what is not whole is the caller's to notice"
    for damaged, at in ((size + 70, size), (2 * size + 18, 2 * size), (size + 10, None)):
        changed = bytearray(whole)
        changed[damaged] ^= 0xFF
        assert first_corrupt(changed) == at
    changed = bytearray(whole)
    changed[size + 8 : size + 12] = (48).to_bytes(4, "big")
    assert first_corrupt(changed) == size, "a length that cannot be one"
