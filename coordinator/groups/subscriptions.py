"""Which topics the members of a consumer group want: the one place that looks into group metadata.

Version 0 of the consumer protocol is a prefix of all later ones, so that is all that is read: int16 version, array of
topic names. What cannot be read is not an error; the group's topics are then unknown.
"""

import struct
from collections.abc import Iterable

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union over all members; None if any of them says something else."""
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(_topics_of(metadata))
        except (struct.error, ValueError):
            return None
    return frozenset(topics)


def _topics_of(metadata: bytes) -> list[str]:
    if _SHORT.unpack_from(metadata, 0)[0] < 0:
        raise ValueError("negative version")
    count = _INT.unpack_from(metadata, 2)[0]
    position = 6
    topics = []
    for _ in range(count):
        length = _SHORT.unpack_from(metadata, position)[0]
        position += 2
        if length < 0 or position + length > len(metadata):
            raise ValueError("a topic name beyond the end")
        topics.append(metadata[position : position + length].decode("utf-8"))
        position += length
    return topics
