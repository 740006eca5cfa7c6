"""Levels of codecs, where the broker compresses (KIP-390)."""

import pytest

from broker.config.topic_config import TopicConfig
from protocol.records.batch import check_crc, read_header
from protocol.records.record import records_of
from tests.unit.partition.rig import Rig, plain


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
