"""Flink's KafkaSink with EXACTLY_ONCE: a transaction for each checkpoint, committed when the checkpoint is complete.

The job (`tests/java/flink/FlinkCopy.java`) copies one topic into another while its task fails, the broker is killed,
and its whole process is killed and begins again with its last checkpoint. Flink has two ways to name its transactions:
INCREMENTING guesses which an earlier life may have left open, POOLING asks for them (ListTransactions).
"""

import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness.confluent import make_topic, producer, read_all, values_of, wait_until
from tests.programs.java_program import JavaProgram, JavaPrograms

SOURCE = Path(__file__).resolve().parents[1] / "java" / "flink" / "FlinkCopy.java"
OPENED = [
    part for package in ("util", "lang", "time") for part in ("--add-opens", f"java.base/java.{package}=ALL-UNNAMED")
]
"""What Flink needs of Java 17."""
SECONDS = 240.0
PARTITIONS = 2
AT_ONCE = 20


class Feed:
    """Writes values into a topic until it is told to end, through whatever happens to the broker."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = producer(bootstrap, enable__idempotence=True)
        self._topic = topic
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.values: list[bytes] = []
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._ended.wait(0.02):
            for _ in range(AT_ONCE):
                self.say(b"%d" % len(self.values))

    def say(self, value: bytes) -> None:
        with self._lock:
            self._producer.produce(self._topic, value, partition=len(self.values) % PARTITIONS)
            self.values.append(value)
        self._producer.poll(0)

    def end(self) -> list[bytes]:
        """All that was written."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(SECONDS) == 0
        return self.values


class Job:
    """FlinkCopy, compiled; each start after the first begins with the newest checkpoint."""

    def __init__(self, programs: JavaPrograms, bootstrap: str, naming: str, guarantee: str = "EXACTLY_ONCE") -> None:
        self._programs = programs
        self._checkpoints = programs.folder / "checkpoints"
        self._checkpoints.mkdir()
        self._told = [bootstrap, "in", "out", self._checkpoints.as_uri(), naming, guarantee]
        libraries = programs.class_path("flink")
        compiler = shutil.which("javac")
        if compiler is None:
            pytest.skip("no javac on PATH")
        classes = tempfile.mkdtemp(dir=programs.folder)
        subprocess.run([compiler, "-cp", libraries, "-d", classes, str(SOURCE)], check=True)
        self._where = f"{classes}:{libraries}"
        self._lives = 0

    def complete(self) -> list[Path]:
        """Its complete checkpoints, the newest last."""
        return sorted(self._checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns)

    def start(self) -> JavaProgram:
        begins = [path.parent.as_uri() for path in self.complete()[-1:]]
        self._lives += 1
        label = f"flink-{self._lives}"
        return self._programs.program(
            label, self._where, "FlinkCopy", *self._told, *begins, heap="700m", options=OPENED
        ).start()


@pytest.fixture
def feed(broker: BrokerProcess) -> Iterator[Feed]:
    for topic in ("in", "out"):
        make_topic(broker.bootstrap, topic, PARTITIONS)
    made = Feed(broker.bootstrap, "in")
    yield made
    made.end()


def shown(bootstrap: str) -> list[bytes]:
    return values_of(read_all(bootstrap, "out"))


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_each_value_arrives_once_through_failures_of_task_process_and_broker(
    broker: BrokerProcess, programs: JavaPrograms, feed: Feed, naming: str
) -> None:
    job = Job(programs, broker.bootstrap, naming)
    running = job.start()

    def await_value(value: bytes) -> None:
        feed.say(value)
        wait_until(lambda: value in shown(broker.bootstrap), f"{value!r}\n{running.log_end()}", seconds=SECONDS)

    for number in range(2):
        await_value(b"begun %d" % number)
        await_value(b"fail %d" % number)
        broker.kill()
        broker.start()
        await_value(b"after the broker's death %d" % number)
        running.kill()
        running = job.start()
        await_value(b"after the job's death %d" % number)
    feed.end()
    await_value(b"the last")
    # One more checkpoint, for what might still be written twice.
    await_value(b"the very last")
    assert Counter(shown(broker.bootstrap)) == Counter(feed.values)
