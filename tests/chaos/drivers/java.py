"""Apache Kafka's Java client: `tests/java/ChaosClient.java`, in a process of its own, spoken to line by line.

The jars are those of `make jars-kafka`, or of the folder that TALLYSTICK_KAFKA_JARS names.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos.drivers.driver import FATAL, MOST_RECORDS, SESSION_MS, Failed, Place
from tests.harness import jars

SOURCES = sorted((Path(__file__).resolve().parents[2] / "java").glob("*.java"))
CLASSES = "TALLYSTICK_CHAOS_CLASSES"
"""Where the compiled programs are, for the workers of a run."""


def class_path() -> str:
    """Raises `JarsMissing`."""
    named = os.environ.get("TALLYSTICK_KAFKA_JARS")
    return f"{named}/*" if named else jars.class_path("kafka")


def compiled() -> str:
    """The folder with all our compiled programs. Raises `JarsMissing` where there is no JDK or no jars."""
    if (known := os.environ.get(CLASSES)) is not None:
        return known
    compiler = shutil.which("javac")
    if compiler is None:
        raise jars.JarsMissing("no javac on PATH")
    folder = tempfile.mkdtemp(prefix="tallystick-java-")
    command = [compiler, "-cp", class_path(), "-d", folder, *map(str, SOURCES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    os.environ[CLASSES] = folder
    return folder


class Program:
    """The running program."""

    def __init__(self) -> None:
        where = f"{compiled()}:{class_path()}"
        java = str(jars.java())
        small = ["-Xmx160m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF"]
        self._process: Any = subprocess.Popen(
            [java, *small, "-cp", where, "ChaosClient"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *command: object) -> list[str]:
        try:
            self._process.stdin.write("\t".join(map(str, command)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError as error:
            raise Failed(FATAL, error) from error
        if not line.endswith("\n"):
            raise Failed(FATAL, f"the Java program ended: {line!r}")
        answer = line.rstrip("\n").split("\t")
        if answer[0] == "ok":
            return list(answer[1:])
        assert answer[0] == "failed" and len(answer) == 3, line
        raise Failed(answer[1], answer[2])

    def end(self) -> None:
        self._process.stdin.close()


_running: Program | None = None


def running() -> Program:
    """One program for all producers that a worker has in its life: starting one costs a second."""
    global _running
    if _running is None or _running._process.poll() is not None:
        _running = Program()
    return _running


class Producing:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, transactional_id: str | None, timeout_ms: int) -> None:
        self._program = running()
        self._described = ("producer", bootstrap, transactional_id or "-", timeout_ms)

    def init(self) -> None:
        self._program.ask(*self._described)

    def begin(self) -> None:
        self._program.ask("begin")

    def send(self, place: Place, value: bytes, key: bytes) -> None:
        self._program.ask("send", *place, value.decode(), key.decode())

    def sent(self) -> list[int | None]:
        return [None if offset == "-" else int(offset) for offset in self._program.ask("sent")]

    def send_offsets(self, group: str, offsets: Mapping[Place, int], member: object) -> None:
        """The member, if there is one, is in the same program."""
        self._program.ask("offsets", group, *_written(offsets))

    def commit(self) -> None:
        self._program.ask("commit")

    def abort(self) -> None:
        self._program.ask("abort")

    def close(self) -> None:
        self._program.ask("close")


class Joined:
    """A member, in the program of the producer; see `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, group: str, places: list[Place]) -> None:
        self._program = running()
        self._program.ask("member", bootstrap, group, places[0][0], SESSION_MS, MOST_RECORDS)

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        return _read(self._program.ask("poll", int(seconds * 1000)))

    def assigned(self) -> dict[Place, int | None] | None:
        answer = self._program.ask("assigned")
        if answer == ["-"]:
            return None
        return {(topic, int(partition)): None for topic, partition in (one.split(":") for one in answer)}

    def rewind(self, offsets: Mapping[Place, int]) -> None:
        self._program.ask("rewind", *_written(offsets))

    def close(self) -> None:
        self._program.ask("leave")


def _written(offsets: Mapping[Place, int]) -> list[str]:
    return [f"{topic}:{partition}:{offset}" for (topic, partition), offset in offsets.items()]


def _read(answer: list[str]) -> list[tuple[Place, int, bytes]]:
    found = []
    for record in answer:
        topic, partition, offset, value = record.split(":")
        found.append(((topic, int(partition)), int(offset), value.encode()))
    return found


class Reading:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, places: list[Place]) -> None:
        self._program = Program()
        self._program.ask("consumer", bootstrap, *(f"{topic}:{partition}" for topic, partition in places))

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        return _read(self._program.ask("poll", int(seconds * 1000)))

    def close(self) -> None:
        self._program.end()
