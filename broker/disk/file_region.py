"""A stretch of a file that is sent from where it lies, by `sendfile`: the kernel need not copy it to us and back.

A region holds a descriptor of its own. Whatever becomes of the file meanwhile (closed, deleted, replaced by its
compacted self), these are the bytes that were meant.
"""

import os
import sys

CAN_SEND_FILES = sys.platform == "linux"


class FileRegion:
    """`len` is what is not sent yet."""

    __slots__ = ("_descriptor", "_left", "_owner", "_position")

    def __init__(self, owner: "FileRegions", descriptor: int, position: int, size: int) -> None:
        self._owner = owner
        self._descriptor = descriptor
        self._position = position
        self._left = size

    def __len__(self) -> int:
        return self._left

    def send_to(self, socket: int, most: int) -> int:
        """Send as much as the socket takes, and not more than `most`. Raises `BlockingIOError` where it takes nothing,
        another `OSError` where the client is gone or the file ends too early."""
        sent = os.sendfile(socket, self._descriptor, self._position, min(most, self._left))
        if sent == 0:
            raise OSError(f"the file ends {self._left} bytes before the end of what is to be sent")
        self._position += sent
        self._left -= sent
        return sent

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._owner.open -= 1

    __del__ = close
    """Not every answer is sent: a wait may look again, a client may be gone."""


class FileRegions:
    """Makes regions, as many at once as there are descriptors to spare."""

    def __init__(self, most: int, highest: int = sys.maxsize) -> None:
        self._most = most if CAN_SEND_FILES else 0
        self._highest = highest
        """A descriptor from this number on is taken from the reserve, and given back at once."""
        self.open = 0

    def of(self, descriptor: int, position: int, size: int) -> FileRegion | None:
        """None where it is better read: the limit is reached."""
        if self.open >= self._most:
            return None
        try:
            own = os.dup(descriptor)
        except OSError:
            return None
        if own >= self._highest:
            os.close(own)
            return None
        self.open += 1
        return FileRegion(self, own, position, size)
