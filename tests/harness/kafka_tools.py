"""Kafka's tools, many in one process (`tests/java/tools/KafkaTools.java`): one start of Java for all of them."""

import atexit
import base64
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer

import pytest

from tests.harness import jars

SOURCE = Path(__file__).resolve().parents[1] / "java" / "tools" / "KafkaTools.java"
PACKAGE = "org.apache.kafka.tools."
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool has said, and its status."""

    status: int
    output: str
    errors: str


class KafkaTools:
    """Started by the constructor; `close` when nothing more is asked."""

    def __init__(self, folder: Path) -> None:
        try:
            libraries = jars.class_path("kafka")
        except jars.JarsMissing as reason:
            pytest.skip(f"Kafka's tools need Java and Kafka's jars: {reason}")
        compiler = shutil.which("javac")
        if compiler is None:
            pytest.skip("no javac on PATH")
        classes = tempfile.mkdtemp(dir=folder)
        subprocess.run([compiler, "-cp", libraries, "-d", classes, str(SOURCE)], check=True)
        java = [str(jars.java()), "-Xmx384m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF", f"-Djava.io.tmpdir={classes}"]
        self._process = subprocess.Popen(
            [*java, "-cp", f"{classes}:{libraries}", "KafkaTools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Said:
        """`tool` is a class, below Kafka's package of tools where it does not begin with "kafka."."""
        name = tool if tool.startswith("kafka.") else PACKAGE + tool
        words = [base64.b64encode(word.encode()).decode() for word in (name, stdin, *arguments)]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        patience = Timer(PATIENCE_S, self._process.kill)
        patience.start()
        line = self._process.stdout.readline()
        patience.cancel()
        assert line, f"{tool} ended the process, or was not done in {PATIENCE_S} s: {self._process.wait()}"
        status, output, errors, _ = line.split(" ")
        return Said(int(status), base64.b64decode(output).decode(), base64.b64decode(errors).decode())

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


_kept: list[KafkaTools] = []
_one_at_a_time = Lock()


def run_tool(tool: str, *arguments: str) -> Said:
    """In a process that is kept until this one ends: a start of Java takes longer than most tools."""
    with _one_at_a_time:
        if not _kept or not _kept[0].running:
            folder = tempfile.TemporaryDirectory(prefix="tallystick-tools-")
            atexit.register(folder.cleanup)
            _kept[:] = [KafkaTools(Path(folder.name))]
            atexit.register(_kept[0].close)
        return _kept[0].run(tool, *arguments)
