"""Kafka Connect 4.3.1, one distributed worker, copies a file into a topic and the topic into a file.

`exactly.once.source.support` (KIP-618) writes each batch and the offset in the file in one transaction, and fences the
tasks of an earlier life by their transactional ids. The sink promises each record at least once.
"""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness.confluent import make_topic, read_all, values_of, wait_until
from tests.programs.connect_worker import SECONDS, Worker
from tests.programs.java_program import JavaPrograms

TOPIC = "lines"
LINES_AT_ONCE = 10


class Feed:
    """A file that grows, ten lines at a time, until it is told to end; a line is its number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._grow)
        self._thread.start()

    def _grow(self) -> None:
        with self.path.open("a") as file:
            while not self._ended.wait(0.02):
                some = range(self.lines, self.lines + LINES_AT_ONCE)
                file.write("".join(f"{number}\n" for number in some))
                file.flush()
                self.lines = some.stop

    def end(self) -> int:
        """How many lines there are."""
        self._ended.set()
        self._thread.join()
        return self.lines


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    made = Feed(tmp_path / "in.txt")
    yield made
    made.end()


def numbers(bootstrap: str) -> list[int]:
    """What readers of committed records are shown."""
    return [int(value) for value in values_of(read_all(bootstrap, TOPIC))]


def copied(path: Path) -> list[int]:
    """The whole lines of the sink's file."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [int(line) for line in whole.split("\n") if line]


def test_each_line_arrives_once_when_worker_and_broker_are_killed(
    broker: BrokerProcess, programs: JavaPrograms, feed: Feed, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    make_topic(broker.bootstrap, TOPIC, 1)
    worker = Worker(programs, broker.bootstrap)
    worker.program.start()
    # A batch has room for all that was written while the worker was away: FileStreamSource holds back what is beyond
    # its batch.size until the file grows once more.
    source = {"connector.class": "FileStreamSource", "file": str(feed.path), "topic": TOPIC, "batch.size": "100000"}
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": TOPIC}
    worker.configure("source", source | {"tasks.max": "1", "exactly.once.support": "required"})
    worker.configure("sink", sink | {"tasks.max": "1"})

    def await_more() -> None:
        shown, kept = len(numbers(broker.bootstrap)), len(copied(out))
        more = lambda: len(numbers(broker.bootstrap)) > shown and len(copied(out)) > kept  # noqa: E731
        wait_until(more, "more lines", seconds=SECONDS)

    for _ in range(3):
        await_more()
        worker.program.kill()
        worker.program.start()
        await_more()
        broker.kill()
        broker.start()
    await_more()
    lines = feed.end()
    wait_until(lambda: len(numbers(broker.bootstrap)) >= lines, "the last line", seconds=SECONDS)
    assert numbers(broker.bootstrap) == list(range(lines))
    wait_until(lambda: copied(out)[-1] == lines - 1, "the last line in the file", seconds=SECONDS)
    written = copied(out)
    assert written[0] == 0
    # It may go back after a kill, and then comes by each line once more; it passes over none.
    assert all(after <= before + 1 for before, after in itertools.pairwise(written))
    assert worker.tasks("source") == worker.tasks("sink") == ["RUNNING"]
