"""How lines of the log get out: a bounded queue and a thread that writes, so that an unread stream stops nothing.

Rule 1. The loop never waits for the stream. What does not fit into the queue is dropped and counted, and the count is
written when there is room again.
Rule 2. What repeats is counted, not written: a client can cause any number of events, and each kind of event gets so
many lines in a window of time. The first line of each is written at once, the count when the window is over. Fields are
compared by their `repr` (`logging.Passing`).
Rule 3. Who logs something never fails of it. Where the system makes no thread, each line takes along what was queued
before it, as far as the stream takes it without waiting.
"""

import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

QUEUED_BYTES = 1 << 20
WINDOW_S = 10.0
LINES_A_WINDOW = 20
"""Different lines of one kind of event, at levels up to WARNING."""
ERRORS_A_WINDOW = 200
"""The same for errors: each names something that the operator has to look at."""
KINDS = 1000
"""Of events at a time; their names stand in our source, so that this is never reached in earnest."""

_Kind = tuple[str, int, str, str]


class _Window:
    """What was written and what was counted of one kind since `end - WINDOW_S`."""

    __slots__ = ("counts", "end", "last", "others")

    def __init__(self, end: float) -> None:
        self.end = end
        self.counts: dict[str, tuple[logging.LogRecord, int]] = {}
        """What a line says → its record, and how often it came again."""
        self.last: logging.LogRecord | None = None
        self.others = 0
        """Lines beyond the limit; `last` is the latest of them."""


class Repeats:
    """Decides which lines are written. Not for several threads at once."""

    def __init__(self) -> None:
        self._windows: dict[_Kind, _Window] = {}

    def admits(self, record: logging.LogRecord, now: float) -> bool:
        """Whether to write a line. If not it is counted, for `over`."""
        kind = _kind(record)
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= KINDS:
                return False
            self._windows[kind] = window = _Window(now + WINDOW_S)
        says = "" if record.exc_info else _says(record)
        known = window.counts.get(says)
        if known is not None:
            window.counts[says] = known[0], known[1] + 1
            return False
        if len(window.counts) >= (ERRORS_A_WINDOW if record.levelno >= logging.ERROR else LINES_A_WINDOW):
            window.last = record
            window.others += 1
            return False
        window.counts[says] = record, 0
        return True

    def over(self, now: float) -> list[tuple[logging.LogRecord, int, bool]]:
        """Ends windows that are over. What was counted in them: (a record, how often, whether all said the same)."""
        said: list[tuple[logging.LogRecord, int, bool]] = []
        while (end := self.next_end) is not None and end <= now:
            window = self._windows.pop(next(iter(self._windows)))
            said += ((record, count, True) for record, count in window.counts.values() if count)
            if window.last is not None:
                said.append((window.last, window.others, False))
        return said

    @property
    def next_end(self) -> float | None:
        """When the next window is over: that of the kind which came first."""
        return next((window.end for window in self._windows.values()), None)


class Stream(Protocol):
    """Where lines go."""

    def ready(self) -> bool:
        """Whether one small write would not block now."""

    def write(self, data: bytes) -> None:
        """Write all of it, however long that takes."""


class DescriptorStream:
    """A file descriptor. Not a file object: one that a thread is stuck in cannot be closed when the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def ready(self) -> bool:
        return any(events & select.POLLOUT for _, events in self._poll.poll(0))

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


class LogWriter(logging.Handler):
    """See the head of this file. `clock` gives seconds and never goes back.

    A small line is written at once where the stream takes it without waiting; whatever else there is to do, a thread
    does, which is begun when there is something.
    """

    def __init__(self, stream: Stream, *, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._repeats = Repeats()
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._writing = False
        self._ending = self._over = False
        self._thread: threading.Thread | None = None
        self.queued_bytes = 0
        self.dropped = 0
        """Lines that found no room, since the last time that was written."""

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            now = self._clock()
            self._count(now)
            if self._repeats.admits(record, now):
                self._put(self.format(record))
            else:
                self._begin()

    def say(self, sentence: str) -> None:
        """A line that is no event: the last words of the process."""
        with self._changed:
            self._put(sentence)

    def finish(self, timeout_s: float) -> None:
        """Write what was counted and what is queued, for at most so long. No thread is begun afterwards: while the
        interpreter ends, one never runs, and who begins it waits for that. Objects that go then may still log."""
        with self._changed:
            self._count(float("inf"))
            self._ending = True
            self._changed.notify_all()
            if self._lines:
                self._begin()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._over = True

    # ------------------------------------------------------------------ with `_changed` held

    def _put(self, text: str) -> None:
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        if not (self._lines or self._writing) and len(line) <= select.PIPE_BUF and self._stream.ready():
            self._write(line)
        elif self.queued_bytes + len(line) > QUEUED_BYTES:
            self.dropped += 1
        else:
            self._lines.append(line)
            self.queued_bytes += len(line)
            self._begin()

    def _begin(self) -> None:
        """There is something for the thread: lines, or a count to be written later."""
        if self._thread is None and (self._over or not self._make_thread()):
            self._write_what_fits()
        self._changed.notify_all()

    def _make_thread(self) -> bool:
        thread = threading.Thread(target=self._serve, name="log", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # the next line tries again
            return False
        self._thread = thread
        return True

    def _write_what_fits(self) -> None:
        """As much of what is queued as the stream takes without waiting."""
        while self._lines and self._stream.ready():
            line = self._lines.popleft()
            self._write(line[: select.PIPE_BUF])
            if rest := line[select.PIPE_BUF :]:
                self._lines.appendleft(rest)
            self.queued_bytes -= len(line) - len(rest)

    def _count(self, now: float) -> None:
        for record, count, same in self._repeats.over(now):
            again = f"repeated={count}" if same else f"others-like-it={count}"
            self._put(f"{self.format(_without_trace(record))} {again}")

    def _take(self) -> bytes:
        """What is to be written now; waits for it. Nothing when this is the end."""
        while True:
            now = self._clock()
            self._count(now)
            if self._lines:
                taken = b"".join(self._lines)
                self._lines.clear()
                self.queued_bytes = 0
                return taken
            if self._ending:
                return b""
            end = self._repeats.next_end
            self._changed.wait(None if end is None else max(0.0, end - now))

    # ------------------------------------------------------------------ the thread

    def _serve(self) -> None:
        while True:
            with self._changed:
                taken = self._take()
                self._writing = bool(taken)
            if not taken:
                return
            self._write(taken)
            with self._changed:
                self._writing = False
                if self.dropped:
                    dropped, self.dropped = self.dropped, 0
                    self._put(f"{dropped} lines of the log were dropped: nobody read them fast enough")

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the stream is closed: there is nowhere to say so
            self._stream.write(data)


def _kind(record: logging.LogRecord) -> _Kind:
    """What is one kind of event: a place in our source, and for a bug the place where it shows."""
    error = record.exc_info[1] if record.exc_info else None
    place = ""
    if error is not None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = type(error).__name__ if trace is None else f"{type(error).__name__} {trace.tb_lineno}"
    return record.name, record.levelno, str(record.msg), place


def _says(record: logging.LogRecord) -> str:
    fields = getattr(record, "fields", None)
    return str(record.args) if fields is None else str(fields)


def _without_trace(record: logging.LogRecord) -> logging.LogRecord:
    """The same with the exception in one line."""
    plain = logging.makeLogRecord(record.__dict__)
    if record.exc_info:
        plain.__dict__["fields"] = {**getattr(record, "fields", {}), "error": repr(record.exc_info[1])}
    plain.exc_info = None
    plain.exc_text = None
    return plain
