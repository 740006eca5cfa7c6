"""Descriptors kept back for the disk: what a process must be able to sync is not refused because connections, or
other processes, have taken all there are.

Rule 1. When the system gives no descriptor (EMFILE, ENFILE), a spare one is closed in its favour. Whatever is closed
next becomes the spare that is missing, in one system call, so that nobody can come between.
Rule 2. There are more spares than threads that have files open at a time; the rest is for the loop's own.
"""

import errno
import os
import threading
from collections.abc import Callable
from typing import TypeVar

SPARES = 24
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})

T = TypeVar("T")


class SpareDescriptors:
    """See the head of this file. Thread-safe."""

    def __init__(self, count: int = SPARES) -> None:
        self._lock = threading.Lock()
        self._spare = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(count)]
        self._missing = 0

    def granted(self, work: Callable[[], T]) -> T:
        """What `work` returns. It needs descriptors, and is begun again when it got none, as long as one is spare."""
        while True:
            try:
                result = work()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._give_one_up():
                    raise
            else:
                if self._missing:
                    self._refill()
                return result

    def close(self, descriptor: int) -> None:
        """Close a descriptor, or make it the spare that is missing."""
        with self._lock:
            if self._missing:
                os.dup2(self._spare[0], descriptor, inheritable=False)
                self._spare.append(descriptor)
                self._missing -= 1
                return
        os.close(descriptor)

    def close_all(self) -> None:
        with self._lock:
            spare, self._spare, self._missing = self._spare, [], 0
        for descriptor in spare:
            os.close(descriptor)

    def _give_one_up(self) -> bool:
        """The last one stays: others are made of it."""
        with self._lock:
            if len(self._spare) <= 1:
                return False
            os.close(self._spare.pop())
            self._missing += 1
            return True

    def _refill(self) -> None:
        """Take back what was given up, as far as the system allows."""
        with self._lock:
            while self._missing:
                try:
                    self._spare.append(os.dup(self._spare[0]))
                except OSError:
                    return
                self._missing -= 1
