"""Java's murmur2 of one key, in plain Python: what the control topic and the command line need, without numpy."""

SEED = 0x9747B28C
M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The hash of one key, as an unsigned 32-bit number."""
    length = len(key)
    h = SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * M & _MASK
        k = (k ^ (k >> 24)) * M & _MASK
        h = (h * M & _MASK) ^ k
    if length > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * M & _MASK
    h = (h ^ (h >> 13)) * M & _MASK
    return h ^ (h >> 15)
