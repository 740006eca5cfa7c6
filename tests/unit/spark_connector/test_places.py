"""The partitions of several topics as one row of numbers."""

import pytest

from spark_connector.errors import BadRows
from spark_connector.sink.places import Places

PLACES = Places([("good", 3), ("dead", 1), ("late", 2)])


def test_every_place_is_one_partition_of_one_topic() -> None:
    found = [PLACES.where(place) for place in range(PLACES.total)]
    assert found == [("good", 0), ("good", 1), ("good", 2), ("dead", 0), ("late", 0), ("late", 1)]
    assert [PLACES.begin_of(topic)[0] + partition for topic, partition in found] == list(range(6))
    assert PLACES.by_topic({5: 7, 0: 1, 1: 2}) == {"good": {"0": 1, "1": 2}, "late": {"1": 7}}
    with pytest.raises(IndexError):
        PLACES.where(6)
    with pytest.raises(BadRows, match="names the topic x, this writer was given good, dead, late"):
        PLACES.begin_of("x")
