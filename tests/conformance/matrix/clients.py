"""The clients of the matrix, and what starts the program of each; what has to be built goes into `.conformance`."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tests.harness import jars

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
BUILT = ROOT / ".conformance"
BUILDING_S = 3600


LOSES_ASSIGNMENTS = "if a poll ends while 3.0.12 joins once more for new metadata, it loses the assignment"


class Missing(Exception):
    """What a client needs cannot be had here, in a sentence."""


@dataclass(frozen=True, slots=True)
class Client:
    """`prepare` builds the program where that must be done, and says what starts it and which version of the client it
    has; it raises `Missing`. `twice`: why what fails is told once more.
    `at_once`: as many programs share the stories, for most of the time they wait.
    """

    name: str
    prepare: Callable[[], tuple[Sequence[str], str]]
    python: bool = False
    twice: str = ""
    at_once: int = 1


def _python(program: str, package: str, *, twice: str = "") -> Client:
    command = (sys.executable, str(PROGRAMS / "python" / f"{program}.py"))
    return Client(package, lambda: (command, version(package)), python=True, twice=twice, at_once=3)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Missing(f"no {name} on PATH")
    return found


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=BUILDING_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def _brought(command: Sequence[str], folder: Path, **variables: str) -> None:
    """What cannot be had here is missing."""
    status, said = _run(command, folder, variables)
    if status != 0:
        raise Missing(f"{' '.join(command[:3])} failed: {said[-600:]}")


def _built(command: Sequence[str], folder: Path, **variables: str) -> None:
    """What does not compile is a failure."""
    status, said = _run(command, folder, variables)
    assert status == 0, said


def _java(jar_set: str) -> tuple[Sequence[str], str]:
    compiler, classes = _program("javac"), BUILT / jar_set
    try:
        where = jars.class_path(jar_set)
    except jars.JarsMissing as reason:
        raise Missing(str(reason)) from None
    classes.mkdir(parents=True, exist_ok=True)
    sources = sorted(map(str, (PROGRAMS / "java").glob("*.java")))
    _built([compiler, "-cp", where, "-d", str(classes), *sources], ROOT)
    small = ["-Xmx200m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF"]
    version = next(
        re.findall(r"kafka-clients-(.*)\.jar", one) for one in jars.expected(jar_set) if "kafka-clients" in one
    )
    return [str(jars.java()), *small, "-cp", f"{classes}:{where}", "Stories"], version[0]


def _go(package: str, module: str) -> tuple[Sequence[str], str]:
    go, sources = _program("go"), PROGRAMS / "go"
    BUILT.mkdir(exist_ok=True)
    program = BUILT / f"go-{package}"
    _brought([go, "mod", "download"], sources, GOTOOLCHAIN="local")
    _built([go, "build", "-mod=readonly", "-o", str(program), f"./{package}"], sources, GOTOOLCHAIN="local")
    (version,) = re.findall(rf"{re.escape(module)} v(\S+)", (sources / "go.mod").read_text())
    return [str(program)], version


def _node(program: str, package: str, **variables: str) -> tuple[Sequence[str], str]:
    node, npm, sources, built = _program("node"), _program("npm"), PROGRAMS / "node" / program, BUILT / program
    locked, copied = sources / "package-lock.json", built / "package-lock.json"
    done = built / "node_modules" / ".done"
    if not done.exists() or copied.read_text() != locked.read_text():
        built.mkdir(parents=True, exist_ok=True)
        for path in (locked, sources / "package.json"):
            shutil.copy(path, built)
        _brought([npm, "ci"], built, **variables)
        done.touch()
    version = json.loads(locked.read_text())["packages"][f"node_modules/{package}"]["version"]
    return ["env", f"NODE_PATH={built / 'node_modules'}", node, str(sources / "main.js")], version


def _rust(crate: str) -> tuple[Sequence[str], str]:
    cargo, sources, target = _program("cargo"), PROGRAMS / "rust", BUILT / "rust"
    status, said = _run([cargo, "build", "--locked", "--bin", crate, "--target-dir", str(target)], sources, {})
    assert "could not compile `stories`" not in said, said
    if status != 0:  # Other crates may want a compiler of C, or libraries that are not here.
        raise Missing(f"cargo build failed: {said[-600:]}")
    (version,) = re.findall(rf'name = "{crate}"\nversion = "([^"]+)"', (sources / "Cargo.lock").read_text())
    return [str(target / "debug" / crate)], version


CLIENTS = {
    client.name: client
    for client in (
        _python("confluent", "confluent-kafka"),
        _python("kafka_python", "kafka-python", twice=LOSES_ASSIGNMENTS),
        _python("aio_kafka", "aiokafka"),
        Client("Java 4.3", partial(_java, "kafka")),
        Client("Java 3.9", partial(_java, "kafka-3.9")),
        Client("franz-go", partial(_go, "franz", "twmb/franz-go")),
        Client("sarama", partial(_go, "sarama", "IBM/sarama")),
        Client("kafka-go", partial(_go, "segmentio", "segmentio/kafka-go")),
        Client("KafkaJS", partial(_node, "kafkajs", "kafkajs")),
        # Where there is no binary of it to download, it is built beside the libraries of the system.
        Client("confluent-js", partial(_node, "confluent", "@confluentinc/kafka-javascript", CKJS_LINKING="dynamic")),
        Client("rskafka", partial(_rust, "rskafka")),
        Client("rust-rdkafka", partial(_rust, "rdkafka")),
    )
}
