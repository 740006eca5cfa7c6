"""What a member of a classic group has, in the bytes that its leader made.

    version      int16
    topics       int32 count, then each: int16 length, name; int32 count, then partitions as int32
    (user data follows, which is the assignor's own)

The broker does not look into them: whoever calls itself a consumer may have written anything.
"""

import struct

from tallystick.inspection.places import Place


def assigned(data: bytes) -> frozenset[Place]:
    """The partitions in an assignment of the protocol type `consumer`; none where it is something else."""
    try:
        return frozenset(_read(data))
    except (struct.error, ValueError):
        return frozenset()


def _read(data: bytes) -> list[Place]:
    if not data:  # has not been given any
        return []
    at, found = 2, []
    (topics,) = struct.unpack_from(">i", data, at)
    at += 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, at)
        if length < 0:
            raise ValueError("a topic without a name")
        name = bytes(data[at + 2 : at + 2 + length]).decode()
        at += 2 + length
        (count,) = struct.unpack_from(">i", data, at)
        partitions = struct.unpack_from(f">{count}i", data, at + 4) if count > 0 else ()
        at += 4 + 4 * len(partitions)
        found += [(name, number) for number in partitions]
    return found
