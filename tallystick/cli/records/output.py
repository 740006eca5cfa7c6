"""Standard output of commands that write much: in pieces, and without a word when the one who reads has gone."""

import os
import sys


class ReaderGone(Exception):
    """The other end of the pipe is closed. That is no failure: `| head` has seen enough."""


class NotWritten(Exception):
    """Standard output takes nothing: a disk is full, or it is closed. The message says so."""


def write_out(data: bytes) -> None:
    """To standard output, at once. Raises `ReaderGone`, `NotWritten`."""
    if sys.stdout is None:  # Python has none where the descriptor is closed
        raise NotWritten("standard output is closed")
    stream = sys.stdout.buffer
    try:
        stream.write(data)
        stream.flush()
    except OSError as problem:
        # What is left in the buffer would be tried again when the interpreter ends, and fail aloud.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(problem, BrokenPipeError):
            raise ReaderGone from None
        raise NotWritten(f"standard output cannot be written: {problem.strerror}") from None
