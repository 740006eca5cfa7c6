"""What Ctrl-C is to a command that takes its time: an end in order, with the status that shells know it by."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""128 and the number of SIGINT."""


@contextmanager
def ending_when_interrupted() -> Iterator[None]:
    """Ends the process where something was interrupted that has cleaned up after itself."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
