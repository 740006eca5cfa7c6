"""Which partition of an internal topic an id belongs to: where Kafka would put it."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordination import key_partition
from broker.coordination.key_partition import LONGEST_SHORT_KEY, java_string_hash, partition_for


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


def by_the_book(text: str) -> int:
    """`s[0]*31^(n-1) + s[1]*31^(n-2) + ... + s[n-1]`, as Java's documentation has it."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2])) % (1 << 32)
    return value - (1 << 32) if value >= 1 << 31 else value


@given(st.text(st.characters(), min_size=1, max_size=40), st.integers(1, 40))
def test_long_keys_have_the_same_hash(text: str, times: int) -> None:
    assert java_string_hash(text * times) == by_the_book(text * times)


@pytest.mark.parametrize("count", [LONGEST_SHORT_KEY, LONGEST_SHORT_KEY + 1, 1023, 1024, 1025, 32_767])
def test_every_lane_may_be_full(count: int) -> None:
    assert java_string_hash("\uffff" * count) == by_the_book("\uffff" * count)


def test_long_keys_are_not_kept() -> None:
    """A thousand keys of 32 KB are one small request after the other."""
    key_partition._short_hash.cache_clear()
    tracemalloc.start()
    for number in range(100):
        java_string_hash(f"{number:032000d}")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 320_000
