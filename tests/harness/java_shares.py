"""Members of share groups that are Java's `KafkaShareConsumer`, told line by line what to do.

The program is `tests/java/ShareMembers.java`.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.drivers import java
from tests.harness import jars

SECONDS = 180
POLL_MS = 500


class Refused(Exception):
    """What the Java program did failed, with an exception of this class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Handed:
    """A record as a member was handed it."""

    partition: int
    offset: int
    deliveries: int
    value: str

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class ShareProgram:
    """A process with any number of members in it. Raises `JarsMissing`."""

    def __init__(self, bootstrap: str, errors: Path) -> None:
        small = ["-Xmx200m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF"]
        command = [str(jars.java()), *small, "-cp", f"{java.compiled()}:{java.class_path()}", "ShareMembers", bootstrap]
        with errors.open("ab") as told:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True, bufsize=1
            )

    def ask(self, *words: object) -> list[str]:
        """Raises `Refused`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        line = self.process.stdout.readline()
        assert line.endswith("\n"), f"the Java program ended at {words}"
        answer = line.rstrip("\n").split("\t")
        if answer[0] != "ok":
            raise Refused(answer[1], answer[2])
        return answer[1:]

    def set(self, group: str, **settings: object) -> None:
        """Settings of a group; `a__b` is `share.a.b`."""
        pairs = (f"share.{name.replace('__', '.')}={value}" for name, value in settings.items())
        self.ask("set", group, *pairs)

    def join(self, name: str, group: str, topic: str, **settings: object) -> "JavaShareMember":
        """A member; `a__b` is the setting `a.b` of its consumer."""
        pairs = (f"{key.replace('__', '.')}={value}" for key, value in settings.items())
        self.ask("join", name, group, topic, *pairs)
        return JavaShareMember(self, name)

    def lags(self, group: str) -> list[int]:
        """How many records of each partition are left to do."""
        return [int(word.split(":")[2]) for word in self.ask("offsets", group)]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def close(self) -> None:
        """Kill it, unless it has ended."""
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class JavaShareMember:
    """One member."""

    def __init__(self, program: ShareProgram, name: str) -> None:
        self._program = program
        self.name = name

    def poll(self, patience_ms: int = POLL_MS) -> list[Handed]:
        return [_handed(word) for word in self._program.ask("poll", self.name, patience_ms)]

    def poll_some(self) -> list[Handed]:
        """Once there are some."""
        for _ in range(SECONDS * 1000 // POLL_MS):
            if found := self.poll():
                return found
        raise AssertionError(f"{self.name} is handed nothing")

    def say(self, kind: str, *records: Handed) -> None:
        """Acknowledge; kept with the next poll or commit."""
        if records:
            places = (f"{one.partition}:{one.offset}" for one in records)
            self._program.ask("say", self.name, kind, *places)

    def commit(self) -> list[str]:
        """The exceptions of partitions of which something could not be kept."""
        return [word.partition(":")[2] for word in self._program.ask("commit", self.name)]

    def settle(self, kind: str, *records: Handed) -> None:
        """Acknowledge, and have it kept."""
        self.say(kind, *records)
        assert self.commit() == []

    def lock_ms(self) -> int:
        return int(self._program.ask("lock", self.name)[0])

    def leave(self) -> None:
        self._program.ask("leave", self.name)


def _handed(word: str) -> Handed:
    partition, offset, deliveries, value = word.split(":", 3)
    return Handed(int(partition), int(offset), int(deliveries), value)
