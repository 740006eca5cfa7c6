"""Which partition a key goes to: Java's murmur2, so that keys written by Java producers and by us meet.

`murmur2` hashes one key; `murmur2_all` a whole column at once, four bytes of every key per step.
"""

import numpy as np
from numpy.typing import NDArray

from spark_connector.murmur2 import SEED, M, murmur2

__all__ = ["murmur2", "murmur2_all", "partitions_for"]


def murmur2_all(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The hashes of the keys `data[start:end]`."""
    m = np.uint32(M)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    lengths = ends - starts
    words = lengths >> 2
    h = np.uint32(SEED) ^ lengths.astype(np.uint32)
    for step in range(int(words.max(initial=0))):
        which = np.nonzero(words > step)[0]
        k = _word(padded, starts[which] + 4 * step) * m
        k = (k ^ (k >> np.uint32(24))) * m
        h[which] = (h[which] * m) ^ k
    tails = lengths & 3
    which = np.nonzero(tails)[0]
    rest = _word(padded, starts[which] + 4 * words[which])
    rest &= (np.uint32(1) << (tails[which].astype(np.uint32) * np.uint32(8))) - np.uint32(1)
    h[which] = (h[which] ^ rest) * m
    h = (h ^ (h >> np.uint32(13))) * m
    hashed: NDArray[np.uint32] = h ^ (h >> np.uint32(15))
    return hashed


def _word(padded: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Four bytes at each place, little-endian."""
    word = padded[at].astype(np.uint32)
    for byte in (1, 2, 3):
        word |= padded[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def partitions_for(hashes: NDArray[np.uint32], count: int) -> NDArray[np.int64]:
    """Java's choice: the hash without its sign, modulo the number of partitions."""
    chosen: NDArray[np.int64] = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    return chosen
