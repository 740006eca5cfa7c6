"""Where the broker compresses, at which level (KIP-390), and where it does not."""

import pytest

from broker.config.topic_config import TopicConfig
from protocol.records import compression
from protocol.records.batch import HEADER_SIZE, check_crc, read_header
from protocol.records.record import NewRecord, build_batch, records_of
from tests.unit.partition.rig import NOW_MS, Rig, plain
from tests.unit.partition.test_append_checks import changed


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -50, 19)])
def test_a_topic_s_level_is_that_of_its_codec(codec: str, low: int, high: int) -> None:
    """At a higher level the same records take less room, and are read as before."""
    text = b" ".join(str(number * number % 1013).encode() for number in range(4000))
    sizes: list[int] = []
    for level in (low, high):
        rig = Rig(config=TopicConfig(compression_type=codec, compression_level=level))
        rig.produce(plain(text))
        stored = rig.log.read(0, 1 << 20, end_offset=1)[0]
        assert check_crc(stored, 0, read_header(stored))
        assert [record.value for record in records_of(stored)] == [text]
        sizes.append(len(stored))
    assert sizes[0] > sizes[1]


def test_records_stay_as_their_producer_compressed_them_where_only_their_time_is_the_brokers() -> None:
    """Another program compresses the same records to other bytes: Java says so in the header of gzip."""
    batch = build_batch([NewRecord(b"v" * 100, b"k", NOW_MS)], compression=compression.GZIP)
    body = bytearray(batch[HEADER_SIZE:])
    body[9] ^= 0xFF  # of which operating system it is
    rig = Rig(config=TopicConfig(log_append_time=True))
    rig.now_ms += 5
    rig.produce(changed(batch, body=bytes(body)))
    stored = bytes(rig.log.read(0, 1 << 20, end_offset=1)[0])
    assert read_header(stored).max_timestamp == NOW_MS + 5
    assert stored[HEADER_SIZE:] == body
