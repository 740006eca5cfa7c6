"""A file that is written in place: each write is on the disk when it returns, by one call of the system if that can be.

A write and a sync are two calls, and whoever makes them on another thread waits for the interpreter in between, for as
long as the loop is busy.
"""

import fcntl
import os

from broker.disk.descriptor_cache import sync_contents
from protocol.schema import Buffer

# macOS: such a descriptor leaves the data in the drive's cache.
BY_THE_WRITE = hasattr(os, "O_DSYNC") and not hasattr(fcntl, "F_FULLFSYNC")


class InPlace:
    """See `storage.files.InPlaceFile`. The descriptor is its own."""

    def __init__(self, absolute: str) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_DSYNC if BY_THE_WRITE else 0)
        self._descriptor = os.open(absolute, flags)

    def write(self, position: int, data: Buffer) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written
        if not BY_THE_WRITE:
            sync_contents(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
