"""Which partition of an internal topic a group id or transactional id belongs to: Java's hash of it, as in Kafka."""

from functools import lru_cache
from typing import Final

LONGEST_SHORT_KEY: Final = 64
"""Characters of a key whose hash is remembered."""


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in 32 bits, signed. Clients choose keys of up to 32 767 bytes:
    the hash of a long one is not remembered."""
    value = _short_hash(text) if len(text) <= LONGEST_SHORT_KEY else _long_hash(text)
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=4096)
def _short_hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value


def _long_hash(text: str) -> int:
    """The same, all units at once as lanes of one integer: neighbours are added, the first times a power of 31, until
    one lane is left. Sums of 16 bits need 32, those of 32 bits 64; what is above 32 bits of a lane is cut off, and
    so are the first lanes when they have been added."""
    units = text.encode("utf-16-be", "surrogatepass")
    lanes = (len(units) + 7) // 8
    pairs, fours = _lanes(0xFFFF, 32, 2 * lanes), _lanes(0xFFFFFFFF, 64, lanes)
    value = int.from_bytes(units, "big")
    value = (value >> 16 & pairs) * 31 + (value & pairs)
    value = (value >> 32 & fours) * 31**2 + (value & fours)
    while lanes > 1:
        lanes = (lanes + 1) // 2
        first = value >> 64 * lanes
        value = (first * pow(31, 4 * lanes, 1 << 32) + value) & _lanes(0xFFFFFFFF, 64, lanes)
    return value & 0xFFFFFFFF


def _lanes(content: int, bits: int, count: int) -> int:
    """`content` in each of `count` lanes of `bits` bits."""
    return int.from_bytes(content.to_bytes(bits // 8, "big") * count, "big")


def partition_for(key: str, partitions: int) -> int:
    """Which partition of an internal topic a group or transactional id belongs to. abs(Int.MIN) is 0, as in Java."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
