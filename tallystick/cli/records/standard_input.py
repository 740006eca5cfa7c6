"""Lines of standard input as they come, beside an event loop.

A thread reads, because neither a terminal nor a file can be waited for by every loop; nothing waits for it at the end.
It reads past Python's buffer, whose lock it would otherwise hold while the interpreter ends.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO

_READ_BYTES = 1 << 18
_PIECES = 8
"""So many may wait; then the thread does."""


class NotRead(Exception):
    """Standard input cannot be read; the message says why."""


async def lines_of_input() -> AsyncIterator[list[bytes]]:
    """Whole lines without their ends, as many as there are at a time; at last what is left without an end. Raises
    `NotRead`."""
    if sys.stdin is None:  # Python has none where the descriptor is closed
        raise NotRead("standard input is closed")
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_PIECES)
    threading.Thread(target=_read, args=(loop, pieces, room), name="standard-input", daemon=True).start()
    rest = b""
    while True:
        piece = await pieces.get()
        room.release()
        if isinstance(piece, OSError):
            raise NotRead(f"standard input cannot be read: {piece.strerror}")
        if not piece:
            break
        *whole, rest = (rest + piece).split(b"\n")
        yield [line.removesuffix(b"\r") for line in whole]
    if rest:
        yield [rest.removesuffix(b"\r")]


def _read(loop: asyncio.AbstractEventLoop, pieces: "asyncio.Queue[bytes | OSError]", room: threading.Semaphore) -> None:
    stream: BinaryIO = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    found: bytes | OSError = b" "
    while found and not isinstance(found, OSError):
        room.acquire()
        try:
            found = stream.read(_READ_BYTES)
        except OSError as problem:
            found = problem
        try:
            loop.call_soon_threadsafe(pieces.put_nowait, found)
        except RuntimeError:  # the loop has ended: nobody wants it any more
            return
