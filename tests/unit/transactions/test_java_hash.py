"""Which partition of an internal topic an id belongs to: where Kafka would put it."""

import pytest

from broker.coordination.coordinators import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("foo", 24),
        ("my-group", 12),
        ("my-transactional-id", 46),
        ("kafka-txn-0", 30),
        ("polygenelubricants", 0),
        ("", 0),
        ("事务", 20),
    ],
)
def test_partitions_of_fifty(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition


def test_the_hash_that_has_no_absolute_value() -> None:
    assert java_string_hash("polygenelubricants") == -(1 << 31)


def test_characters_outside_the_basic_plane_count_as_two_units() -> None:
    """U+1F600 is D83D DE00: 31 * 0xD83D + 0xDE00."""
    assert java_string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00
