"""Standard output of commands that write much: in pieces, and without a word when the one who reads has gone."""

import os
import sys


class ReaderGone(Exception):
    """The other end of the pipe is closed. That is no failure: `| head` has seen enough."""


def write_out(data: bytes) -> None:
    """To standard output, at once. Raises `ReaderGone`."""
    stream = sys.stdout.buffer
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        # What is left in the buffer would be tried again when the interpreter ends, and fail aloud.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ReaderGone from None
