"""`TallystickContainer` of distributions/testcontainers: compiled, and used by a program with Kafka's own client."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.containers.conftest import Engine
from tests.harness import jars

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "distributions" / "testcontainers" / "src" / "main" / "java"
PROGRAM = ROOT / "tests" / "java" / "containers" / "InAContainer.java"
PATIENCE_S = 300
SAYS = ("apart", "network", "read", "partitions", "topics of the other")
SAID = ["apart: true", "network: broker:19092", "read: one order", "partitions: 3", "topics of the other: 0"]


@pytest.fixture
def class_path(tmp_path: Path) -> str:
    """The module and the program, compiled without a warning, and what they stand on."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK")
    try:
        beside = os.pathsep.join(jars.class_path(name) for name in ("testcontainers", "kafka"))
    except jars.JarsMissing as reason:
        pytest.skip(str(reason))
    compiled = tmp_path / "classes"
    sources = [str(path) for path in (*MODULE.rglob("*.java"), PROGRAM)]
    warnings = ["-Xlint:all,-classfile,-processing", "-Werror", "--release", "17"]
    subprocess.run(["javac", *warnings, "-cp", beside, "-d", str(compiled), *sources], check=True)
    return os.pathsep.join((str(compiled), beside))


def test_a_program_uses_brokers_in_containers(engine: Engine, class_path: str) -> None:
    quiet = ["-Xmx300m", "-Dlog4j2.level=WARN", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command = [str(jars.java()), *quiet, "-cp", class_path, "InAContainer"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(SAYS)] == SAID
