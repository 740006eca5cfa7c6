"""Which topics the members of a consumer group want: the one place that looks into group metadata.

Version 0 of the consumer protocol is a prefix of all later ones, so that is all that is read: int16 version, array of
topic names. What cannot be read is not an error; the group's topics are then unknown.

It is needed rarely, and much may have to be read: it is read on request, some of it at a time.
"""

import struct
from collections.abc import Callable, Iterable

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


READ_AT_ONCE_BYTES = 32 << 10
MEMBER_BYTES = 64
"""What reading the shortest metadata counts as."""


class Subscriptions:
    """The topics of all members of one generation, whose metadata is in `members`."""

    def __init__(self, members: Callable[[], Iterable[bytes]]) -> None:
        self.topics: frozenset[str] | None = None
        """Their union; None if any member says something else, and until `read` says that it has read all."""
        self._members = members
        self._unread: list[bytes] | None = None
        self._found: set[str] = set()
        self._known = False

    def read(self) -> bool:
        """Read on; whether `topics` is known now."""
        if self._known:
            return True
        if self._unread is None:
            self._unread = list(self._members())
        left = READ_AT_ONCE_BYTES
        while self._unread and left > 0:
            metadata = self._unread.pop()
            left -= MEMBER_BYTES + len(metadata)
            try:
                self._found.update(_topics_of(metadata))
            except (struct.error, ValueError):
                self._unread, self._found, self._known = None, set(), True
                return True
        if not self._unread:
            self.topics, self._known = frozenset(self._found), True
            self._unread, self._found = None, set()
        return self._known


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
