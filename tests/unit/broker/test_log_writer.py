"""The log: a stream nobody reads stops nothing, repeats are counted, what a client causes is bounded."""

import logging
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from broker.process.log_writer import ERRORS_A_WINDOW, LINES_A_WINDOW, QUEUED_BYTES, WINDOW_S, LogWriter
from broker.process.logging import FIELD_CHARACTERS, TRACE_CHARACTERS, EventLog, LineFormatter, Passing


class Pipe:
    """Takes nothing while `full`; remembers what it took."""

    def __init__(self) -> None:
        self.taken = b""
        self.emptied = threading.Event()
        self.emptied.set()
        self.writers = 0

    def ready(self) -> bool:
        return self.emptied.is_set()

    def write(self, data: bytes) -> None:
        self.emptied.wait()
        self.taken += data

    @property
    def lines(self) -> list[str]:
        return self.taken.decode().splitlines()


class Rig:
    """What becomes of the lines of one part of the broker, with a clock that stands."""

    def __init__(self, part: str = "test-log-writer") -> None:
        self.now = 0.0
        self.pipe = Pipe()
        self.writer = LogWriter(self.pipe, clock=lambda: self.now)
        self.writer.setFormatter(LineFormatter())
        self.log = EventLog(part)
        self.logger = logging.getLogger(f"tallystick.{part}")
        self.logger.setLevel(logging.INFO)
        self.logger.propagate = False
        self.logger.handlers[:] = [self.writer]

    def lines(self) -> list[str]:
        """All that came out, without the time."""
        self.writer.finish(30)
        return [line.partition(" ")[2] for line in self.pipe.lines]

    def close(self) -> None:
        self.pipe.emptied.set()
        self.writer.finish(30)
        self.logger.handlers[:] = []
        self.logger.propagate = True


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.close()


def test_a_line_is_there_when_the_call_returns(rig: Rig) -> None:
    rig.log.info("started", node=1)
    assert [line.partition(" ")[2] for line in rig.pipe.lines] == ["INFO test-log-writer started node=1"]


def test_a_full_pipe_stops_nobody_and_holds_little(rig: Rig) -> None:
    rig.pipe.emptied.clear()
    for number in range(10_000):
        rig.log.error(f"event {number % 900}", number=number, name="x" * 500)
    assert rig.writer.queued_bytes <= QUEUED_BYTES
    assert rig.writer.dropped > 100
    rig.pipe.emptied.set()
    assert any("lines of the log were dropped" in line for line in rig.lines())


def test_the_same_line_is_written_once_and_counted(rig: Rig) -> None:
    for _ in range(1000):
        rig.log.info("connection closed", reason="a bad frame")
    assert rig.lines() == [
        'INFO test-log-writer connection closed reason="a bad frame"',
        'INFO test-log-writer connection closed reason="a bad frame" repeated=999',
    ]


def test_what_a_field_says_in_passing_makes_no_other_line(rig: Rig) -> None:
    for port in range(1000):
        rig.log.warning("connection closed", peer=Passing(f"10.0.0.1:{port}", "10.0.0.1"))
    rig.log.warning("connection closed", peer=Passing("10.0.0.2:1", "10.0.0.2"))
    assert rig.lines() == [
        "WARNING test-log-writer connection closed peer=10.0.0.1:0",
        "WARNING test-log-writer connection closed peer=10.0.0.2:1",
        "WARNING test-log-writer connection closed peer=10.0.0.1:0 repeated=999",
    ]


def test_lines_that_differ_are_counted_beyond_a_limit(rig: Rig) -> None:
    for number in range(1000):
        rig.log.warning("connection closed", peer=number)
    lines = rig.lines()
    assert len(lines) == LINES_A_WINDOW + 1
    assert lines[-1] == f"WARNING test-log-writer connection closed peer=999 others-like-it={1000 - LINES_A_WINDOW}"


def test_each_error_is_named_up_to_a_limit(rig: Rig) -> None:
    for number in range(1000):
        rig.log.error("a log is damaged", partition=number)
    assert len(rig.lines()) == ERRORS_A_WINDOW + 1


def test_a_bug_has_one_traceback_however_often_it_shows(rig: Rig) -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    for number in range(1000):
        try:
            fail(number)
        except ValueError as error:
            rig.log.bug("request failed", error, peer=number)
    rig.writer.finish(30)
    text = rig.pipe.taken.decode()
    assert text.count("Traceback") == 1
    assert "repeated=999" in text


def test_after_a_while_a_line_is_written_again(rig: Rig) -> None:
    for _ in range(3):
        rig.log.info("once in a while")
        rig.now += WINDOW_S
    assert rig.lines() == ["INFO test-log-writer once in a while"] * 3


def test_a_client_chosen_name_does_not_fill_the_log(rig: Rig) -> None:
    rig.log.info("a long name", name="n" * 30_000)
    (line,) = rig.lines()
    assert len(line) < FIELD_CHARACTERS + 100


def test_the_message_of_a_bug_does_not_fill_the_log(rig: Rig) -> None:
    try:
        raise ValueError("v" * 1_000_000)
    except ValueError as error:
        rig.log.bug("request failed", error)
    rig.writer.finish(30)
    assert len(rig.pipe.taken) < TRACE_CHARACTERS + 200


def test_the_end_does_not_wait_for_an_unread_pipe(rig: Rig) -> None:
    rig.pipe.emptied.clear()
    rig.log.info("last words")
    rig.writer.finish(0)
    assert rig.pipe.lines == []


def test_where_no_thread_can_be_made_nobody_fails_of_a_line(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", refused)
        rig.log.error("no thread can be made")
        rig.log.error("no thread can be made")  # is counted, and the count is written later
        rig.pipe.emptied.clear()
        rig.log.error("nobody reads", text="x" * 3 * select.PIPE_BUF)
        rig.pipe.emptied.set()
        rig.log.error("somebody reads again")
        assert len(rig.pipe.lines) == 3
        assert rig.writer.queued_bytes == 0
        rig.pipe.emptied.clear()
        rig.log.error("nobody reads until the end")
        rig.pipe.emptied.set()
    assert [line.partition("test-log-writer ")[2].split(" text=")[0] for line in rig.lines()] == [
        "no thread can be made",
        "nobody reads",
        "somebody reads again",
        "nobody reads until the end",
        "no thread can be made repeated=1",
    ]


def test_no_thread_is_begun_after_the_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the interpreter ends a thread never runs, and who begins it waits for that: so a broker whose disk had
    failed stayed, when what was left of its requests was thrown away."""
    begun: list[threading.Thread] = []
    rig.writer.finish(30)
    monkeypatch.setattr(threading.Thread, "start", begun.append)
    for _ in range(2):  # the second is counted, which is work for a thread
        rig.log.error("thrown away")
    rig.pipe.emptied.clear()
    rig.log.error("nobody reads", text="x" * 3 * select.PIPE_BUF)
    rig.pipe.emptied.set()
    assert begun == [] and [line.partition("test-log-writer ")[2] for line in rig.pipe.lines] == ["thrown away"]


def test_nobody_reads_any_more(rig: Rig) -> None:
    def broken(data: bytes) -> Any:
        raise BrokenPipeError

    rig.pipe.write = broken  # type: ignore[method-assign]
    rig.log.info("into the void")
    assert rig.lines() == []
