"""An event loop in a thread of its own, for programs that block: Spark's Python workers, command lines.

One per process. A fork does not take threads along: a call in a child gets a new one.
"""

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """The loop. Ask `background_loop()` for the one of this process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tallystick-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run some work there and wait for its end. If the waiting is interrupted, the work is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_loops: dict[int, BackgroundLoop] = {}


def background_loop() -> BackgroundLoop:
    """The loop of this process, started at the first call."""
    pid = os.getpid()
    if pid not in _loops:
        _loops.clear()
        _loops[pid] = BackgroundLoop()
    return _loops[pid]


def now_ms() -> int:
    """The wall clock, as record timestamps have it."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """A clock that nobody sets."""
    return time.monotonic()


def fresh_name() -> str:
    """A unique name."""
    return uuid.uuid4().hex
