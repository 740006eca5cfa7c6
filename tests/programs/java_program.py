"""Programs in Java, each in a process of its own that can be killed and started again."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness import jars

LOGGING = """rootLogger.level=warn
rootLogger.appenderRef.stdout.ref=STDOUT
appender.stdout.type=Console
appender.stdout.name=STDOUT
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d %p %m (%c)%n%throwable{5}
"""


class JavaProgram:
    """One command line. Not started by the constructor; what it says goes to a file."""

    def __init__(self, label: str, command: Sequence[str], folder: Path) -> None:
        self.label = label
        self._command = list(command)
        self._log = folder / f"{label}.out"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "JavaProgram":
        assert not self.running
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self, seconds: float) -> int:
        """Its exit status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log_end(self, characters: int = 8000) -> str:
        return self.said()[-characters:]


class JavaPrograms:
    """Makes programs; whatever still runs in the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[JavaProgram] = []
        self._logging = folder / "log4j2.properties"
        self._logging.write_text(LOGGING)

    def class_path(self, jar_set: str) -> str:
        try:
            return jars.class_path(jar_set)
        except jars.JarsMissing as reason:
            pytest.skip(f"the jars of {jar_set} are missing: {reason}")

    def program(
        self, label: str, where: str, main: str, *arguments: str, heap: str = "512m", options: Sequence[str] = ()
    ) -> JavaProgram:
        """`where` is a class path."""
        java = [
            str(jars.java()),
            f"-Xmx{heap}",
            *jars.SHORT_LIFE,
            f"-Dlog4j2.configurationFile={self._logging}",
            *options,
        ]
        made = JavaProgram(label, [*java, "-cp", where, main, *arguments], self.folder)
        self.started.append(made)
        return made

    def properties(self, name: str, settings: dict[str, str]) -> str:
        """The path of a file with these settings."""
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def close(self) -> None:
        for program in self.started:
            program.kill()
