"""What holds for every message of every table."""

import random
from typing import Any

import pytest
from hypothesis import given, settings

from protocol.codec import decode, encode, encode_bytes
from protocol.errors import ProtocolError
from tests.conformance.samples import all_tables, label, sample
from tests.property.message_strategies import Written, damaged, written

MUTATIONS = 40


@settings(max_examples=500, deadline=None, derandomize=True)
@given(written())
def test_what_is_written_is_read_again(original: Written) -> None:
    """Every field a version carries survives, and reading ends where writing ended."""
    data = original.bytes
    assert decode(type(original.message), original.version, data + b"behind") == (original.message, len(data))
    assert b"".join(encode(original.message, original.version)) == data


@settings(max_examples=500, deadline=None, derandomize=True)
@given(damaged())
def test_damaged_bytes_are_refused_or_are_another_message(damage: tuple[type, int, bytes]) -> None:
    """`ProtocolError` and nothing else; what is accepted can be written and read again."""
    assert_refused_or_a_message(*damage)


@pytest.mark.parametrize("pair", all_tables(), ids=label)
def test_no_byte_of_a_message_can_upset_the_decoder(pair: tuple[type, int]) -> None:
    """The same for each version with some bytes of a full message overwritten, and every way to cut it short."""
    cls, version = pair
    rng = random.Random(label(pair))
    data = encode_bytes(sample(cls, version, rng), version)
    for _ in range(MUTATIONS if data else 0):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        assert_refused_or_a_message(cls, version, bytes(changed))
    for end in range(0, len(data), max(1, len(data) // MUTATIONS)):
        with pytest.raises(ProtocolError):
            decode(cls, version, data[:end])


def assert_refused_or_a_message(cls: type[Any], version: int, data: bytes) -> None:
    try:
        message, end = decode(cls, version, data)
    except ProtocolError:
        return
    assert end <= len(data)
    assert decode(cls, version, encode_bytes(message, version))[0] == message
