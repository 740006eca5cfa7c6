"""What Ctrl-C is to a command that takes its time: an end in order, with the status that shells know it by."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


@contextmanager
def ending_when_interrupted() -> Iterator[None]:
    """Ends the process where something was interrupted that has cleaned up after itself."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except asyncio.CancelledError:
        sys.exit(TERMINATED)


def cancel_when_terminated() -> None:
    """SIGTERM cancels the running task: for one that leaves something behind, and does not block the loop."""
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
